// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restoredrill_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/restoredrill"
)

// series returns the metrics of restore drills of an Etcd, by name.
func series(etcd string) map[string]float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "etcd" && label.GetValue() == etcd && strings.HasPrefix(family.GetName(), "etcd_druid_restore") {
					found[family.GetName()] = metric.GetGauge().GetValue()
				}
			}
		}
	}

	return found
}

var _ = Describe("The metrics of restore drills", func() {
	It("describe the last proof of the store, and are deleted with the Etcd", func(ctx SpecContext) {
		const proof = `{"proven":{"provenAt":"2026-01-01T11:00:00Z","store":%q,"snapshot":"Incr-1-9","revision":9,"hash":3,"restoreTime":"8s","dataAge":"3m0s","missingRevisions":4}}`
		objects := rolledOut("measured", nil, fmt.Sprintf(proof, `S3 container "bucket" prefix "PREFIX"`))
		c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(objects...).Build()
		r := &restoredrill.Reconciler{Client: c, Reader: c, Config: restoredrill.Config{Limit: 1}, Clock: testclock.NewFakePassiveClock(now), Recorder: events.NewFakeRecorder(100)}
		reconcileOnce := func(ctx context.Context) {
			GinkgoHelper()
			Expect(r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "measured"}})).Error().NotTo(HaveOccurred())
		}

		reconcileOnce(ctx)
		expected := map[string]float64{
			"etcd_druid_restore_proven_timestamp_seconds": float64(now.Add(-time.Hour).Unix()),
			"etcd_druid_restore_duration_seconds":         8,
			"etcd_druid_restore_data_age_seconds":         180,
		}
		Expect(series("measured")).To(Equal(expected))

		mr := objects[1].DeepCopyObject().(client.Object)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
		mr.GetAnnotations()["etcd-druid.extensions.gardener.cloud/store"] = `{"provider":"S3","container":"other","prefix":"measured"}`
		Expect(c.Update(ctx, mr)).To(Succeed())
		reconcileOnce(ctx)
		Expect(series("measured")).To(BeEmpty())

		mr.GetAnnotations()["etcd-druid.extensions.gardener.cloud/store"] = `{"provider":"S3","container":"bucket","prefix":"measured"}`
		Expect(c.Update(ctx, mr)).To(Succeed())
		reconcileOnce(ctx)
		Expect(series("measured")).To(Equal(expected))
		Expect(c.Delete(ctx, objects[0])).To(Succeed())
		reconcileOnce(ctx)
		Expect(series("measured")).To(BeEmpty())
	})
})
