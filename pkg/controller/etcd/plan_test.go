// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"regexp"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// stepLog is a log that keeps the steps of the operator.
type stepLog struct{ steps *[]string }

// Init implements logr.LogSink.
func (stepLog) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (stepLog) Enabled(int) bool { return true }

// Info implements logr.LogSink.
func (l stepLog) Info(_ int, message string, keysAndValues ...any) {
	if message == "Executing step" {
		*l.steps = append(*l.steps, stepText(keysAndValues[1], keysAndValues[3], keysAndValues[5]))
	}
}

// Error implements logr.LogSink.
func (stepLog) Error(error, string, ...any) {}

// WithValues implements logr.LogSink.
func (l stepLog) WithValues(...any) logr.LogSink { return l }

// WithName implements logr.LogSink.
func (l stepLog) WithName(string) logr.LogSink { return l }

// volatile matches what differs between two clusters: times, and the names and revisions of snapshots.
var volatile = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|Full-[0-9a-f-]+|revision \d+`)

func stepText(kind, object, reason any) string {
	return volatile.ReplaceAllString(fmt.Sprintf("%v of %v: %v", kind, object, reason), "*")
}

// plannedSteps returns the steps that `kubectl etcd plan` would print for the stored Etcd.
func plannedSteps(k *kube.Cluster) []string {
	GinkgoHelper()
	o := startOperator(k, nil)
	stored := k.EtcdObject()
	canonical, errs := helper.Canonical(stored)
	Expect(errs).To(BeEmpty())
	request := observer.RequestFor(canonical)
	request.QueryEtcd, request.Volumes = true, true
	observation := o.observer.Observe(context.Background(), canonical, request)
	lines, err := simulator.Plan(simulator.Input{Stored: stored, Wanted: canonical, Observation: observation, Config: o.reconciler.Config, Now: k.Clock.Now()})
	Expect(err).NotTo(HaveOccurred())
	var steps []string
	for _, line := range lines {
		if line.Step != nil {
			steps = append(steps, stepText(plan.TraitsOf(line.Step).Kind, plan.MetaOf(line.Step).Object, line.Reason))
		}
	}

	return steps
}

// expectPlanned expects that `kubectl etcd plan` prints the steps that the operator executes.
func expectPlanned(c crashCase) {
	GinkgoHelper()
	if c.unplanned {
		return
	}
	k := c.begin()
	if etcd := k.EtcdObject(); etcd == nil || etcd.DeletionTimestamp != nil {
		return // the plugin plans no deletion
	}
	for range 3 { // what happens to nodes and pods is observed before the plan
		k.Tick()
	}
	planned := plannedSteps(k)
	var executed []string
	o := startOperator(k, nil)
	o.log = logr.New(stepLog{&executed})
	o.run()
	if c.unforeseen {
		Expect(planned).NotTo(BeEmpty())
		Expect(planned[0]).To(Equal(executed[0]))

		return
	}
	Expect(planned).To(Equal(executed))
}
