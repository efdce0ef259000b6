// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// joining lets the members join the cluster of old-0, old-1 and old-2.
func joining(etcd *druidv1alpha1.Etcd) {
	existing := &druidv1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{"http://old:2379"}}
	for _, name := range []string{"old-0", "old-1", "old-2"} {
		existing.Members = append(existing.Members, druidv1alpha1.BootstrapExistingMember{Name: name, PeerURLs: []string{"http://" + name + ":2380"}})
	}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = existing
}

var _ = Describe("Removal of the members of the joined cluster", func() {
	// joined returns the scenario of a cluster that has joined old-0, old-1 and old-2.
	joined := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, append(change, joining)...)
		s.AddExisting("old-0", "old-1", "old-2")
		s.run()
		Expect(s.result.Newest.Plan.Outcome()).To(Equal(plan.OutcomeDone), "%s", s.result.Description)
		Expect(s.Members).To(HaveLen(3 + int(replicas)))
		Expect(s.Etcd.Status.BootstrapWithExistingCluster.Members).To(HaveLen(3))

		return s
	}
	// keep leaves the first members of the joined cluster in the spec.
	keep := func(s *scenario, count int) {
		s.inject("members are removed from spec.etcd.bootstrapWithExistingCluster", func() {
			if count == 0 {
				s.Etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
				return
			}
			s.Etcd.Spec.Etcd.BootstrapWithExistingCluster.Members = s.Etcd.Spec.Etcd.BootstrapWithExistingCluster.Members[:count]
		})
	}

	It("joins three members with three members, and removes those of the joined cluster", func() {
		s := joined(3, withStore)
		Expect(s.Leader).To(Equal(s.Members[0].ID), "a member of the joined cluster leads")
		s.expectGolden("join-three-and-three")
		s.resetTrace()
		keep(s, 0)
		s.run()
		s.expectDone()
		Expect(s.Etcd.Status.BootstrapWithExistingCluster).To(BeNil())
		Expect(s.Objects.State.Existing).To(BeNil())
		Expect(s.steps).To(And(HaveKeyWithValue("RemoveMember", 3), HaveKeyWithValue("MoveLeader", BeNumerically(">=", 1))))
		s.expectGolden("removal-of-joined-members")
	})

	It("removes only the members that the spec does not name, and keeps the endpoints until they are removed", func() {
		s := joined(3)
		s.inject("one member and another endpoint stay", func() {
			s.Etcd.Spec.Etcd.BootstrapWithExistingCluster.Members = s.Etcd.Spec.Etcd.BootstrapWithExistingCluster.Members[:2]
			s.Etcd.Spec.Etcd.BootstrapWithExistingCluster.ClientEndpoints = []string{"http://other:2379"}
		})
		s.runUntil(func() bool { return len(s.Members) == 5 })
		Expect(s.Objects.State.Existing.ClientEndpoints).To(Equal([]string{"http://old:2379"}))
		s.run()
		Expect(s.result.Newest.Plan.Outcome()).To(Equal(plan.OutcomeDone))
		Expect(s.violations()).To(BeEmpty())
		Expect(s.Members).To(HaveLen(5))
		Expect(s.Etcd.Status.BootstrapWithExistingCluster.Members).To(HaveLen(2))
		Expect(s.Objects.State.Existing.ClientEndpoints).To(Equal([]string{"http://other:2379"}))
	})

	It("removes a learner again that a sidecar of the joined cluster adds", func() {
		s := joined(3)
		s.ReaddExisting(true)
		keep(s, 0)
		s.run()
		s.expectDone()
		Expect(s.steps["RemoveMember"]).To(BeNumerically(">", 3))
	})

	It("waits again after a learner was removed that kept out a member of the Etcd", func() {
		s := joined(3)
		s.ReaddExisting(true)
		keep(s, 2)
		s.runUntil(func() bool {
			recorded := s.Objects.State.Existing
			return recorded != nil && !recorded.RemovedAt.IsZero()
		})
		s.inject("main-2 loses its volume", func() { s.LoseVolume(2); s.DeletePod(2) })
		for range 20 {
			s.runFor(3)
			Expect(s.Etcd.Status.BootstrapWithExistingCluster.Members).To(HaveLen(3), "the sidecar of old-2 still adds learners")
		}
		s.ReaddExisting(false)
		s.run()
		Expect(s.Etcd.Status.BootstrapWithExistingCluster.Members).To(HaveLen(2))
		Expect(s.Members).To(HaveLen(5))
		Expect(s.violations()).To(BeEmpty())
	})

	It("removes the followers first and the leader last if the leader cannot be reached", func() {
		s := joined(3)
		s.operator.OnObserve = func(o *etcdcluster.Observation) {
			o.Etcd.Existing = slices.DeleteFunc(slices.Clone(o.Etcd.Existing), func(e etcdcluster.EndpointStatus) bool { return e.IsLeader() })
		}
		leader := s.Leader
		keep(s, 0)
		s.runUntil(func() bool { return len(s.Members) == 4 })
		Expect(s.Leader).To(Equal(leader))
		s.run()
		s.expectDone()
	})

	It("has no effect if the members are put back before the first removal", func() {
		s := joined(3, withStore)
		before := s.Etcd.Spec.Etcd.BootstrapWithExistingCluster.DeepCopy()
		s.Store.Down = true
		s.resetTrace()
		keep(s, 0)
		s.runFor(20)
		Expect(s.result.Newest.Plan.Stage).To(Equal(plan.StageSnapshot))
		s.inject("the members are put back", func() { s.Etcd.Spec.Etcd.BootstrapWithExistingCluster = before })
		s.run()
		Expect(s.result.Newest.Plan.Outcome()).To(Equal(plan.OutcomeDone))
		Expect(s.Members).To(HaveLen(6))
		Expect(s.steps).NotTo(Or(HaveKey("RemoveMember"), HaveKey("EvictPod"), HaveKey("DeletePod")))
	})

	It("removes a dead member first, and waits while a member of the Etcd is not healthy", func() {
		s := joined(3)
		s.inject("old-1 stops", func() { s.StopExisting("old-1", true) })
		s.inject("the etcd of main-1 ends, and its node is cut off", func() { s.PartitionNode(s.Objects.PodFor(1).Node, true) })
		keep(s, 0)
		s.runFor(20)
		Expect(s.Members).To(HaveLen(6))
		s.inject("the node is reachable again", func() { s.PartitionNode(s.Objects.PodFor(1).Node, false) })
		s.runUntil(func() bool { return len(s.Members) == 5 })
		Expect(s.Members).NotTo(ContainElement(HaveField("Ordinal", 101)))
		s.run()
		s.expectDone()
	})

	It("names the members of the joined cluster if the quorum is lost with them", func() {
		s := joined(3, withStore)
		for _, name := range []string{"old-0", "old-1", "old-2"} {
			s.StopExisting(name, true)
		}
		s.inject("three minutes pass", func() { s.Advance(3 * time.Minute) })
		keep(s, 0)
		s.runFor(60)
		Expect(s.steps).NotTo(HaveKey("RemoveMember"))
		Expect(s.result.Newest.Plan.WaitsFor).To(ContainSubstring("members of the joined cluster (old-0, old-1, old-2) to start again"))
		for _, name := range []string{"old-0", "old-1", "old-2"} {
			s.StopExisting(name, false)
		}
		s.run()
		s.expectDone()
	})

	It("scales up to three members before it removes those of the joined cluster", func() {
		s := joined(2)
		keep(s, 0)
		s.runFor(10)
		Expect(s.result.Newest.Plan.WaitsFor).To(ContainSubstring("spec.replicas to be 3"))
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
	})

	It("waits if an even number of voting members would be left", func() {
		s := joined(3)
		keep(s, 1)
		s.runFor(10)
		Expect(s.result.Newest.Plan.WaitsFor).To(ContainSubstring("one member more or one member less"))
		keep(s, 0)
		s.run()
		s.expectDone()
	})

	It("removes the members while an unfinished scale-up is taken back, which leaves an even number of voting members", func() {
		s := joined(3)
		s.inject("spec.replicas becomes 5", func() { s.Etcd.Spec.Replicas = 5 })
		s.runUntil(func() bool { _, voters := s.Voters(); return voters == 7 })
		s.inject("spec.replicas becomes 3, and the members are removed", func() { s.Etcd.Spec.Replicas, s.Etcd.Spec.Etcd.BootstrapWithExistingCluster = 3, nil })
		s.run()
		s.expectDone()
	})

	It("removes the members before it scales in", func() {
		s := joined(3)
		s.inject("the members are removed, and spec.replicas becomes 1", func() {
			s.Etcd.Spec.Etcd.BootstrapWithExistingCluster, s.Etcd.Spec.Replicas = nil, 1
		})
		s.runUntil(func() bool { return s.Objects.State.ScaleIn != nil })
		Expect(s.Members).To(HaveLen(3))
		s.run()
		s.expectDone()
	})

	It("is completed for a single member", func() {
		s := joined(1)
		keep(s, 0)
		s.run()
		s.expectDone()
	})

	It("is completed before a hibernation, and continues after a hibernation that began before", func() {
		s := joined(3)
		keep(s, 0)
		s.runUntil(func() bool { return len(s.Members) == 5 })
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.runUntil(func() bool { return len(s.Objects.Pods) == 0 })
		Expect(s.Members).To(HaveLen(3))
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
		Expect(s.Etcd.Status.BootstrapWithExistingCluster).To(BeNil())
	})

	It("ends with a restore, because the restored cluster has no member of the joined cluster", func() {
		s := joined(3, withStore)
		keep(s, 0)
		s.runUntil(func() bool { return len(s.Members) == 5 })
		s.inject("the volumes of all members are lost, and the members of the joined cluster stop", func() {
			for ordinal := range 3 {
				s.LoseVolume(ordinal)
				s.DeletePod(ordinal)
			}
			for _, name := range []string{"old-0", "old-1", "old-2"} {
				s.StopExisting(name, true)
			}
		})
		s.run()
		s.inject("a user requests a restore", func() {
			metav1.SetMetaDataAnnotation(&s.Etcd.ObjectMeta, druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStoreUnverified)
		})
		s.run()
		s.run()
		s.expectRolledOut()
		Expect(s.Etcd.Status.BootstrapWithExistingCluster).To(BeNil())
		Expect(s.Objects.State.Existing).To(BeNil())
		Expect(s.Members).To(HaveLen(3))
		Expect(s.result.Newest.Plan.Outcome()).To(Equal(plan.OutcomeDone))
	})

	It("continues after the members of both clusters were stopped and started again", func() {
		s := joined(3)
		s.inject("the members are removed, and spec.replicas becomes 0", func() {
			s.Etcd.Spec.Etcd.BootstrapWithExistingCluster, s.Etcd.Spec.Replicas = nil, 0
		})
		s.run()
		Expect(s.Objects.Pods).To(BeEmpty())
		Expect(s.Members).To(HaveLen(6))
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
	})
})
