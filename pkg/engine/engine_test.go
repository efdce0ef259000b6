// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"slices"
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
		o = simulator.NewOperator(cluster, target.Config{LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath}, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {
			EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1",
		}}}})
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

	It("observes the end of a surge soon, because no watch reports that a claim is gone", func() {
		start(fixture.WithReplicas(1), fixture.WithAnnotation("druid.gardener.cloud/update-strategy", "Surge"))
		run(isDone)
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Labels["role"] = "other"
			request(etcd)
		})
		deleted := run(func(engine.Result) bool { return slices.Contains(steps, "DeleteClaim test-test-1") })
		Expect(deleted.Newest.Plan.ClusterSize).To(BeEquivalentTo(1))
		Expect(deleted.RequeueAfter).To(Equal(time.Second))
	})

	It("records the pod template while a surge has created the pod, although the update strategy is removed", func() {
		start(fixture.WithReplicas(1), fixture.WithAnnotation("druid.gardener.cloud/update-strategy", "Surge"))
		run(isDone)
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Labels["role"] = "other"
			request(etcd)
		})
		run(isDone)
		Expect(cluster.Objects.State.Surge).To(HaveField("Phase", state.SurgeComplete))
		change(func(etcd *druidv1alpha1.Etcd) {
			delete(etcd.Annotations, "druid.gardener.cloud/update-strategy")
			request(etcd)
		})
		Expect(run(isDone).Newest.Rendered.StatefulSet.Annotations).To(HaveKey("etcd-druid.extensions.gardener.cloud/template"))
		Expect(steps).To(BeEmpty())
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Labels["role"] = "main"
			request(etcd)
		})
		Expect(run(isDone).Newest.Rendered.StatefulSet.Annotations).NotTo(HaveKey("etcd-druid.extensions.gardener.cloud/template"))
		Expect(steps).To(HaveExactElements("DeletePod test-0"))
	})

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

	DescribeTable("replaces no healthy pod that could not be created again",
		func(replicas int32, first string) {
			start(fixture.WithReplicas(replicas))
			run(isDone)
			preflight := etcdcluster.Preflight{Refusal: "no PriorityClass"}
			o.OnObserve = func(observed *etcdcluster.Observation) {
				if len(observed.HealthyOutdatedPods()) > 0 {
					observed.Preflights = []etcdcluster.Preflight{{}, preflight}
				}
			}
			change(func(etcd *druidv1alpha1.Etcd) {
				etcd.Spec.Labels["role"] = "other"
				request(etcd)
			})
			refused := run(func(r engine.Result) bool { return r.EventReason == "PodNotStarted" })
			Expect(refused.Description).To(And(HavePrefix("Waiting for a correction: no PriorityClass ("), HaveSuffix(": not before a new pod can start)")))
			for range 20 {
				cluster.Tick()
				o.Reconcile()
			}
			Expect(steps).To(BeEmpty())
			preflight = etcdcluster.Preflight{Unknown: "the webhook does not respond"}
			unknown := run(func(engine.Result) bool { return len(steps) > 0 })
			Expect(unknown.Description).To(HaveSuffix("; the webhook does not respond"))
			Expect(steps).To(HaveExactElements(HavePrefix(first)))
		},
		Entry("of a single member", int32(1), "DeletePod test-0"),
		Entry("of three members", int32(3), "EvictPod test-"),
	)

	It("reports a pod that does not start with the sentence of the condition, and with an event", func() {
		start(fixture.WithReplicas(1))
		cluster.SetImageBroken("registry.example.com/etcd-wrapper:v1", true)
		result := run(func(r engine.Result) bool { return r.EventReason == "PodNotStarted" })
		Expect(result.EventType).To(Equal("Warning"))
		Expect(result.Description).To(ContainSubstring("image registry.example.com/etcd-wrapper:v1 of container etcd of pod test-0 cannot be pulled (ImagePullBackOff); correct"))
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

	It("changes the version of etcd after a full snapshot, and reports the generation as rolled out only then", func() {
		start(fixture.WithReplicas(3), fixture.WithLocalStore())
		old := o.Config.Defaults.ImagesOf("3.4")
		o.Config.Defaults.ImageSets = map[string]state.Images{"3.4": old, "3.5": {EtcdWrapper: "registry.example.com/etcd-wrapper:v2", BackupRestore: "registry.example.com/etcdbrctl:v2", Init: old.Init}}
		run(isDone)
		Expect(cluster.Objects.State).To(And(HaveField("EtcdVersion", "3.4"), HaveField("Accepted.Defaults.ImageSets", HaveKeyWithValue("3.4", old))))
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.Version = new("3.5")
			request(etcd)
		})
		run(func(r engine.Result) bool {
			if cluster.Objects.State.EtcdVersion == "3.5" {
				return true
			}
			Expect(r.Newest.Applied).To(BeFalse())
			Expect(etcd.Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(1)))

			return false
		})
		Expect(steps).To(Equal([]string{"TakeSnapshot test"}))
		run(isDone)
		Expect(steps).To(HaveExactElements("TakeSnapshot test", HavePrefix("EvictPod"), HavePrefix("EvictPod"), HavePrefix("MoveLeader"), HavePrefix("EvictPod")))
		Expect(cluster.Written().Image).To(Equal("registry.example.com/etcd-wrapper:v2"))
		Expect(etcd.Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(2)))

		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.Version = nil
			request(etcd)
		})
		run(isDone)
		Expect(steps).To(BeEmpty(), "the absence of the field changes nothing")
		Expect(cluster.Objects.State.EtcdVersion).To(Equal("3.5"))
	})

	It("continues with the last accepted generation while the newest one is refused", func() {
		start(fixture.WithReplicas(3))
		run(isDone)
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 2
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

	It("replaces the pod of a member that cannot join also after the generation was rolled out", func() {
		start(fixture.WithReplicas(3))
		run(isDone)
		etcd.Status.ObservedGeneration, etcd.Status.LastOperation = &etcd.Generation, &druidv1alpha1.LastOperation{State: druidv1alpha1.LastOperationStateSucceeded}
		node := cluster.Objects.PodFor(1).Node
		for _, n := range cluster.Nodes {
			n.Gone = n.Gone || n.Name == node
		}
		steps = nil
		run(func(engine.Result) bool {
			learner := cluster.Member(1)

			return learner != nil && learner.Learner && !learner.Started
		})
		cluster.Leader = 0 // its sidecar writes the configuration of a new cluster
		run(func(engine.Result) bool { return len(steps) == 4 })
		Expect(steps).To(Equal([]string{"ReplaceClaim test-test-1", "DeletePod test-1", "DeletePod test-1", "PromoteMember test-1"}))
	})

	It("records what a quorum confirms before it replaces a volume, and not before", func() {
		start(fixture.WithReplicas(3))
		run(isDone)
		recorded := cluster.Objects.State.Evidence.HighestRevision
		cluster.Write(8)
		written := cluster.Data.Revision
		run(isDone)
		Expect(written).To(BeNumerically(">", recorded))
		Expect(cluster.Objects.State.Evidence.HighestRevision).To(Equal(recorded), "five minutes have not passed")
		steps = nil
		cluster.Nodes[1].Gone = true
		cluster.Tick()
		var before *state.Evidence
		record := o.OnStep
		o.OnStep = func(run *engine.Run, step plan.Step, reason string) func(error) {
			if _, is := step.(plan.ReplaceClaim); is {
				before = cluster.Objects.State.Evidence
			}

			return record(run, step, reason)
		}
		run(func(engine.Result) bool { return len(steps) > 0 })
		Expect(steps).To(HaveExactElements(HavePrefix("ReplaceClaim")))
		Expect(before.HighestRevision).To(Equal(written))
	})

	It("replaces no volume when a quorum has just returned a lower revision", func() {
		start(fixture.WithReplicas(3))
		cluster.Write(41)
		run(isDone)
		cluster.Objects.State.Evidence.HighestRevision = cluster.Data.Revision
		lower := cluster.Data.Revision - 1
		steps = nil
		cluster.Nodes[1].Gone = true
		cluster.Tick()
		o.OnObserve = func(o *etcdcluster.Observation) {
			for i := range o.Etcd.Members {
				o.Etcd.Members[i].QuorumRevision = min(o.Etcd.Members[i].QuorumRevision, lower)
			}
		}
		run(func(r engine.Result) bool { return r.Newest.Plan.Step != nil })
		Expect(steps).To(BeEmpty())
		Expect(cluster.Objects.State.Evidence.RolledBack).To(HaveField("Revision", Equal(lower)))
	})

	It("records what a quorum confirms when it hibernates a cluster", func() {
		start(fixture.WithReplicas(3))
		run(isDone)
		cluster.Write(8)
		cluster.Refresh()
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 0
			request(etcd)
		})
		run(isDone)
		Expect(cluster.Objects.State).To(And(HaveField("Replicas", HaveValue(BeZero())), HaveField("Evidence.HighestRevision", Equal(cluster.Data.Revision))))
	})

	It("records the voting members with each rendering that adds a member", func() {
		start()
		run(isDone)
		change(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 3
			request(etcd)
		})
		o.WithoutCare = true
		run(func(engine.Result) bool { return *cluster.Objects.State.Replicas == 3 })
		Expect(cluster.Objects.State.Evidence.Voters).To(ConsistOf(HaveField("Name", "test-0"), HaveField("Name", "test-1")))
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
		Expect(result.Reason).To(BeElementOf("Waiting", "Reconciling"))
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

	It("records that a user accepts a revision, and returns the request then", func() {
		start()
		run(isDone)
		cluster.Write(40) // revision 41
		cluster.Objects.State.Evidence = &state.Evidence{HighestRevision: 42, RolledBack: &state.RolledBack{Revision: 41}}
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/accept-revision", "40")
		Expect(o.Reconcile().Requests).To(ConsistOf(And(HaveField("Annotation", "druid.gardener.cloud/accept-revision"), HaveField("Ignored", "the cluster was rolled back to revision 41"))))
		Expect(cluster.Objects.State.Evidence.RolledBack).NotTo(BeNil())
		Expect(etcd.Annotations).To(BeEmpty())

		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/accept-revision", "41")
		recording := o.Reconcile()
		Expect(recording.Requests).To(BeEmpty(), "it is not recorded yet")
		Expect(recording.RequeueAfter).To(BeNumerically("~", time.Second, time.Second), "no watch reports the record")
		Expect(o.Reconcile().Requests).To(ConsistOf(And(HaveField("Value", "41"), HaveField("Ignored", BeEmpty()))))
		Expect(cluster.Objects.State.Evidence).To(And(HaveField("HighestRevision", BeEquivalentTo(41)), HaveField("AcceptedRevision", BeEquivalentTo(41)), HaveField("RolledBack", BeNil())))
	})

	It("does not accept that the cluster was rolled back if the revision is accepted for a restore that is ignored", func() {
		start(fixture.WithLocalStore())
		run(isDone)
		cluster.Write(40) // revision 41
		cluster.Objects.State.Evidence = &state.Evidence{HighestRevision: 42, RolledBack: &state.RolledBack{Revision: 41}}
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/accept-revision", "41")
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store")
		Expect(o.Reconcile().Requests).To(ConsistOf(
			And(HaveField("Annotation", "druid.gardener.cloud/restore"), HaveField("Ignored", ContainSubstring("is healthy"))),
			And(HaveField("Annotation", "druid.gardener.cloud/accept-revision"), HaveField("Ignored", "the requested restore is ignored")),
		))
		Expect(etcd.Annotations).To(BeEmpty())
		o.Reconcile()
		Expect(cluster.Objects.State.Evidence.RolledBack).NotTo(BeNil())
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
