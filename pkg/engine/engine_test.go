// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Reconcile", func() {
	var (
		etcd    *druidv1alpha1.Etcd
		cluster *simulator.Cluster
		o       *simulator.Operator
		steps   []string
	)
	// start simulates an Etcd that was never rolled out.
	start := func(options ...func(*druidv1alpha1.Etcd)) {
		etcd = fixture.Etcd(append([]func(*druidv1alpha1.Etcd){func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) }}, options...)...)
		cluster = simulator.New(etcd, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		o = simulator.NewOperator(cluster, target.Config{LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath}, Defaults: state.Defaults{Images: state.Images{
			EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1",
		}}})
		steps = nil
		o.OnStep = func(_ *engine.Run, step plan.Step, _ string) func(error) {
			steps = append(steps, plan.TraitsOf(step).Kind+" "+plan.MetaOf(step).Object)

			return nil
		}
	}
	// run reconciles until a result holds.
	run := func(holds func(engine.Result) bool) engine.Result {
		GinkgoHelper()
		var result engine.Result
		for range 300 {
			if result = o.Reconcile(); holds(result) {
				return result
			}
			cluster.Tick()
		}
		Fail("it never holds: " + result.Description)

		return result
	}
	isDone := func(r engine.Result) bool {
		return r.State == druidv1alpha1.LastOperationStateSucceeded && r.Newest.Applied
	}
	change := func(mutate func(*druidv1alpha1.Etcd)) {
		etcd.Generation++
		mutate(etcd)
		steps = nil
	}
	request := func(etcd *druidv1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
	}

	It("creates a cluster, records how, and does nothing more", func() {
		start(fixture.WithReplicas(3))
		done := run(isDone)
		Expect(steps).To(HaveExactElements("PromoteMember test-1", "PromoteMember test-2", HavePrefix("MoveLeader"), HavePrefix("EvictPod")))
		Expect(cluster.Objects.State).To(And(HaveField("Size", BeEquivalentTo(3)), HaveField("Accepted.Generation", BeEquivalentTo(1)), HaveField("Replicas", HaveValue(BeEquivalentTo(3)))))
		Expect(done.Err).NotTo(HaveOccurred())
		Expect(cluster.Incidents).To(BeEmpty())

		steps = nil
		Expect(isDone(o.Reconcile())).To(BeTrue())
		Expect(steps).To(BeEmpty())
	})

	It("rolls out a later generation when it is requested", func() {
		start()
		run(isDone)
		change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["role"] = "other" })
		waiting := o.Reconcile()
		Expect(waiting.Reason).To(Equal("OperationAnnotationMissing"))
		Expect(waiting.Accepted).NotTo(BeNil(), "the last accepted generation is reconciled")
		Expect(steps).To(BeEmpty())

		request(etcd)
		run(isDone)
		Expect(steps).To(Equal([]string{"DeletePod test-0"}))
		Expect(cluster.Objects.State.Accepted.Generation).To(BeEquivalentTo(2))
	})

	It("continues with the last accepted generation while the newest one is refused", func() {
		start(fixture.WithReplicas(3))
		run(isDone)
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 1
			request(etcd)
		})
		node := cluster.Objects.PodFor(1).Node
		for _, n := range cluster.Nodes {
			n.Gone = n.Gone || n.Name == node
		}
		cluster.Tick()
		refused := run(func(engine.Result) bool { return len(steps) == 3 })
		Expect(steps).To(Equal([]string{"ReplaceClaim test-test-1", "DeletePod test-1", "PromoteMember test-1"}))
		Expect(refused.Reason).To(Equal("InvalidSpec"))
		Expect(refused.Description).To(And(HavePrefix("spec.replicas"), ContainSubstring("generation 1")))
		Expect(refused.RequeueAfter).To(BeNumerically(">", 0), "members are polled although a refusal is not repeated")
		Expect(cluster.Objects.State.Accepted.Generation).To(BeEquivalentTo(1))
	})

	It("does nothing to a suspended Etcd", func() {
		start()
		run(isDone)
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Labels["role"] = "other"
			request(etcd)
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "")
		})
		for range 5 {
			result := o.Reconcile()
			Expect(result.Reason).To(Equal("Suspended"))
			Expect(result.Accepted).To(BeNil())
			cluster.Tick()
		}
		Expect(steps).To(BeEmpty())
	})

	It("decides nothing without the record", func() {
		start()
		run(isDone)
		change(request)
		cluster.Objects.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionManagedResource, Message: "no answer"}}
		result := o.Reconcile()
		Expect(result.Description).To(ContainSubstring("no answer"))
		Expect(result.Progressing).To(BeEquivalentTo("True"))
		Expect(result.RequeueAfter != 0 || result.Err != nil).To(BeTrue())
		Expect(steps).To(BeEmpty())
	})

	It("reports orphaned claims, and no members of different clusters", func() {
		start(fixture.WithReplicas(3))
		run(isDone)
		cluster.RecreateEtcd()
		etcd.Spec.Replicas = 1
		result := o.Reconcile()
		Expect(result.Description).To(ContainSubstring("a previous cluster has left volumes of more than the 1 members"))
		Expect(result.EventReason).To(Equal("OrphanedClaims"))
		Expect(result.Newest.Plan.Stage).To(BeEquivalentTo("WaitForClaims"))
	})

	It("returns the requests that have no effect", func() {
		start(fixture.WithLocalStore())
		run(isDone)
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "start")
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store")
		Expect(o.Reconcile().Requests).To(ConsistOf(
			And(HaveField("Annotation", "druid.gardener.cloud/rotate-ca"), HaveField("Value", "start"), HaveField("Ignored", ContainSubstring("not issued by the operator"))),
			And(HaveField("Annotation", "druid.gardener.cloud/restore"), HaveField("Ignored", Not(BeEmpty()))),
		))
	})
})
