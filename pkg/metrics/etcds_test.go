// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/metrics"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// cached returns the Etcds or the error.
type cached struct {
	client.Reader
	etcds []druidv1alpha1.Etcd
	err   error
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*druidv1alpha1.EtcdList).Items = c.etcds

	return c.err
}

// scrape returns what Prometheus would read.
func scrape(collector prometheus.Collector) (string, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)

	families, err := registry.Gather()

	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return "", err
		}
	}

	return text.String(), err
}

var _ = Describe("The metrics of Etcds", func() {
	It("contain the state of each Etcd, and nothing for a deleted one", func() {
		failing := fixture.Etcd(fixture.WithReplicas(3))
		failing.Status.ReadyReplicas = 1
		failing.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: "False", Reason: "QuorumLost"}, {Type: "BackupReady", Status: "Unknown"}, {Type: "Ready", Status: "True"}}
		failing.Status.LastOperation = &druidv1alpha1.LastOperation{Type: "Reconcile", State: "Error"}
		failing.Status.LastErrors = []druidv1alpha1.LastError{{Code: "ERR_SYNC"}, {Code: "ERR_SYNC"}}
		reader := &cached{etcds: []druidv1alpha1.Etcd{*failing, *fixture.Etcd(fixture.WithName("new"), fixture.WithReplicas(0))}}
		collector := &metrics.Etcds{Reader: reader}

		Expect(scrape(collector)).To(Equal(`# HELP etcd_druid_condition 1 for the status that each condition of an Etcd has, and the reason for it.
# TYPE etcd_druid_condition gauge
etcd_druid_condition{condition="BackupReady",etcd="test",etcd_namespace="test-ns",reason="",status="Unknown"} 1
etcd_druid_condition{condition="Ready",etcd="test",etcd_namespace="test-ns",reason="QuorumLost",status="False"} 1
# HELP etcd_druid_last_error 1 for each code among the last errors of an Etcd.
# TYPE etcd_druid_last_error gauge
etcd_druid_last_error{code="ERR_SYNC",etcd="test",etcd_namespace="test-ns"} 1
# HELP etcd_druid_members_desired Desired members of an Etcd; 0 while it hibernates.
# TYPE etcd_druid_members_desired gauge
etcd_druid_members_desired{etcd="new",etcd_namespace="test-ns"} 0
etcd_druid_members_desired{etcd="test",etcd_namespace="test-ns"} 3
# HELP etcd_druid_members_ready Members of an Etcd that are ready.
# TYPE etcd_druid_members_ready gauge
etcd_druid_members_ready{etcd="new",etcd_namespace="test-ns"} 0
etcd_druid_members_ready{etcd="test",etcd_namespace="test-ns"} 1
# HELP etcd_druid_operation 1 for the type and the state of the last operation on an Etcd.
# TYPE etcd_druid_operation gauge
etcd_druid_operation{etcd="test",etcd_namespace="test-ns",state="Error",type="Reconcile"} 1
`))

		reader.etcds = nil
		Expect(scrape(collector)).To(BeEmpty())
	})

	DescribeTable("are missing while the operator starts", func(err error) {
		Expect(scrape(&metrics.Etcds{Reader: &cached{err: err}})).To(BeEmpty())
	},
		Entry("and its cache does not run", &cache.ErrCacheNotStarted{}),
		Entry("and its cache has not received all Etcds", apierrors.NewTimeoutError("failed waiting for *v1alpha1.Etcd Informer to sync", 0)),
	)

	It("fail a scrape while Etcds cannot be read, instead of reporting none", func() {
		_, err := scrape(&metrics.Etcds{Reader: &cached{err: errors.New("no cache")}})
		Expect(err).To(MatchError(ContainSubstring("no cache")))
	})
})
