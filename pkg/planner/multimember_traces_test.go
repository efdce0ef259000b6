// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Traces of multiple members", func() {
	created := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, change...)
		s.run()
		s.expectDone()
		if replicas > 1 { // as after an election
			s.Leader = s.Member(1).ID
			s.Refresh()
		}
		s.resetTrace()

		return s
	}

	// separate kills etcd of a voting member as soon as the sidecar of another member has added its learner. The etcd of the latter then forms a separate
	// cluster.
	separate := func(s *scenario, learner, killed int) {
		GinkgoHelper()
		s.runUntil(func() bool {
			joining := s.Member(learner)
			return joining != nil && joining.Learner && !joining.Started
		})
		s.inject(fmt.Sprintf("the etcd of main-%d is killed after the sidecar of main-%d added its learner", killed, learner), func() {
			s.StopEtcd(killed)
			s.Leader = 0
		})
	}

	It("creates three members, one voter first and then learners one at a time", func() {
		s := newScenario(3)
		s.run()
		s.expectDone()
		s.expectGolden("three-created")
	})

	DescribeTable("scales up from one member to three",
		func(golden string, change ...func(*druidv1alpha1.Etcd)) {
			s := created(1, change...)
			s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
			s.run()
			s.expectDone()
			s.expectGolden(golden)
		},
		Entry("with a store, after its restart", "one-to-three", withStore),
		Entry("without a store, before its restart", "one-to-three-without-store"),
	)

	It("keeps one lineage where the etcd of the first member is killed at any time during the scale-up, the third member being unschedulable for long", func() {
		for tick := range 40 {
			s := created(1, withStore)
			s.Nodes = s.Nodes[:2]
			s.inject("spec.replicas becomes 3, and only two nodes have room", func() { s.Etcd.Spec.Replicas = 3 })
			s.runFor(tick)
			s.inject("the etcd of main-0 is killed, and its database is older than the newest delta snapshot", func() { s.StopEtcdBehindStore(0) })
			s.run()
			Expect(s.violations()).To(BeEmpty(), "killed after %d ticks", tick)
			_, voters := s.Voters()
			Expect(voters).To(Equal(2), "killed after %d ticks", tick)
		}
	})

	DescribeTable("completes a change of the size if something happens at any time of it", func(from, to int32, what string, change func(*scenario)) {
		for tick := 0; tick < 40; tick += 2 {
			s := created(from, withStore)
			s.inject("spec.replicas changes", func() { s.Etcd.Spec.Replicas = to })
			s.runFor(tick)
			s.inject(what, func() { change(s) })
			s.runFor(3)
			s.run()
			s.inject("the next generation replaces pods that are older than the record", s.IncrementGeneration)
			s.run()
			s.expectDone()
		}
	},
		Entry("scale-up: the record is lost", int32(1), int32(3), "the record is lost", func(s *scenario) { s.Objects.State = state.State{} }),
		Entry("scale-in: the record is lost", int32(3), int32(1), "the record is lost", func(s *scenario) { s.Objects.State = state.State{} }),
	)

	It("keeps the pod of a member that leaves and is not ready, and replaces the others although the PodDisruptionBudget allows no eviction", func() {
		s := created(3)
		s.inject("spec.replicas becomes 5", func() { s.Etcd.Spec.Replicas = 5 })
		s.runUntil(func() bool { _, voters := s.Voters(); return voters == 4 })
		s.inject("spec.replicas becomes 3, the image changes, and the sidecar of main-3 does not start again", func() {
			s.Etcd.Spec.Replicas, s.image = 3, "v2"
			s.BreakSidecar(3)
			s.StopEtcd(3)
		})
		s.run()
		s.expectDone()
	})

	It("switches peer TLS on once, although the pod of a member that leaves is not ready", func() {
		s := created(3)
		s.inject("spec.replicas becomes 5", func() { s.Etcd.Spec.Replicas = 5 })
		s.runUntil(func() bool { _, voters := s.Voters(); return voters == 4 })
		s.inject("spec.replicas becomes 3, peer TLS is switched on, and the sidecar of main-3 does not start again", func() {
			s.Etcd.Spec.Replicas = 3
			withPeerTLS(s.Etcd)
			s.BreakSidecar(3)
		})
		s.resetTrace()
		s.run()
		s.expectDone()
		Expect(s.steps["DeletePod"]+s.steps["EvictPod"]).To(BeNumerically("<=", 6), "%v", s.trace)
	})

	It("adds two members again whose volumes are gone when the Etcd is created again, although etcd adds none while the other does not run", func() {
		s := created(5)
		s.inject("the Etcd is deleted and created again, without the claims 3 and 4", func() { s.RecreateEtcd(3, 4) })
		s.run()
		s.expectDone()
	})

	It("pauses a scale-in to one while the member that stays joins again, and replaces its pod if its etcd formed a separate cluster", func() {
		s := created(3)
		s.inject("a scale-in to one is recorded, and the data of main-0 is corrupted", func() {
			s.Etcd.Spec.Replicas, s.Objects.State.ScaleIn = 1, &state.ScaleIn{To: 1, Since: s.Now()}
			s.CorruptVolume(0)
			s.DeletePod(0)
		})
		separate(s, 0, 1)
		s.run()
		s.expectDone()
	})

	It("replaces the pod of a learner that formed a separate cluster, because the first member restarted while the learner joined", func() {
		s := created(1, withStore)
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		separate(s, 1, 0)
		s.run()
		s.expectDone()
		s.expectGolden("one-to-three-with-separate-learner")
		Expect(s.violations()).To(BeEmpty())
	})

	It("switches peer TLS on before it is scaled up", func() {
		s := created(1, withStore)
		s.inject("spec.replicas becomes 3, and peer TLS is switched on", func() {
			s.Etcd.Spec.Replicas = 3
			withPeerTLS(s.Etcd)
		})
		s.run()
		s.expectDone()
		s.expectGolden("one-to-three-with-peer-tls")
	})

	It("scales up from three members to five", func() {
		s := created(3)
		s.inject("spec.replicas becomes 5", func() { s.Etcd.Spec.Replicas = 5 })
		s.run()
		s.expectDone()
		s.expectGolden("three-to-five")
	})

	It("replaces followers, then the leader after it transferred its leadership", func() {
		s := created(3)
		s.inject("the image becomes v2", func() { s.image = "v2" })
		s.run()
		s.expectDone()
		s.expectGolden("three-image-changed")
	})

	It("waits while an eviction is refused", func() {
		s := created(3)
		s.inject("the image becomes v2, and a drain is under way", func() { s.image = "v2"; s.RefuseEvictions(2) })
		s.run()
		s.expectDone()
		s.expectGolden("three-eviction-refused")
	})

	It("replaces pods of unhealthy members before others", func() {
		s := created(3)
		s.inject("pod main-2 cannot start again, and the image becomes v2", func() {
			s.SetImageBroken("v1-broken", true)
			s.Objects.PodFor(2).Containers[0].Image = "v1-broken"
			s.image = "v2"
		})
		s.run()
		s.expectDone()
		s.expectGolden("three-unhealthy-first")
	})

	It("replaces two members whose sidecars do not start, one of them the leader, one after the other although neither gets ready by itself", func() {
		s := created(3)
		s.inject("the sidecars of main-0 and of main-1, which leads, do not start again, and the image becomes v2", func() {
			s.BreakSidecar(0)
			s.BreakSidecar(1)
			s.image = "v2"
		})
		s.run()
		s.expectDone()
		s.expectGolden("three-two-unready-pods")
	})

	It("waits for a pod of the newest template that does not get ready, also if others are not ready", func() {
		s := created(3)
		s.inject("the sidecars of all members do not start again, and the image becomes v2, which is broken", func() {
			for _, pod := range s.Objects.Pods {
				s.BreakSidecar(pod.Ordinal)
			}
			s.image = "v2"
			s.SetImageBroken("v2", true)
		})
		s.run()
		alive, all := s.Voters()
		Expect([]int{alive, all}).To(Equal([]int{2, 3}))
		Expect(s.steps["DeletePod"] + s.steps["EvictPod"]).To(Equal(1))
		Expect(s.violations()).To(BeEmpty())
	})

	It("replaces a leader first whose sidecar does not start", func() {
		s := created(3)
		s.inject("the sidecar of main-1, which leads, does not start again, and the image becomes v2", func() {
			s.BreakSidecar(1)
			s.image = "v2"
		})
		s.run()
		s.expectDone()
		s.expectGolden("three-leader-with-an-unready-pod")
	})

	It("stops a broken image at the first pod, and resumes when it is corrected", func() {
		s := created(3)
		s.inject("the image becomes v2, which is broken", func() { s.image = "v2"; s.SetImageBroken("v2", true) })
		s.run()
		alive, all := s.Voters()
		Expect([]int{alive, all}).To(Equal([]int{2, 3}))
		s.inject("the image becomes v3, which works", func() { s.image = "v3" })
		s.run()
		s.expectDone()
		s.expectGolden("three-broken-image")
	})

	It("replaces all pods together where the first image never worked", func() {
		s := created(3)
		s.inject("all images break, and the nodes restart", func() { s.SetImageBroken("v1", true) })
		s.run()
		s.inject("the image becomes v2, which works", func() { s.image = "v2" })
		s.run()
		s.expectDone()
		s.expectGolden("three-no-member-healthy")
	})

	It("replaces the only pod where the first image never worked and the cluster never formed", func() {
		s := newScenario(3)
		s.SetImageBroken("v1", true)
		s.run()
		s.inject("the image becomes v2, which works", func() { s.image = "v2" })
		s.run()
		s.expectDone()
		s.expectGolden("three-never-formed")
	})

	// restarting is the ordinal of the member whose pod is not ready.
	restarting := func(s *scenario) int {
		for ordinal := range s.Members {
			if pod := s.Objects.PodFor(ordinal); pod == nil || !pod.Ready {
				return ordinal
			}
		}
		Fail("all pods are ready")

		return 0
	}

	It("waits for a member that needs a raft snapshot while peer TLS is switched on, until it is switched off again", func() {
		s := created(3)
		s.inject("peer TLS is switched on", func() { withPeerTLS(s.Etcd) })
		s.runUntil(func() bool { return s.steps["EvictPod"] == 1 })
		member := restarting(s)
		s.inject("the member is away for more writes than the leader keeps", func() { s.Member(member).NeedsSnapshot = true })
		s.run()
		Expect(s.Member(member).NeedsSnapshot).To(BeTrue())
		Expect(s.steps).To(HaveKeyWithValue("EvictPod", 1))
		Expect(s.last).To(ContainSubstring("has no peer TLS and cannot send a raft snapshot to main-%d", member))
		s.inject("peer TLS is switched off", func() { withoutPeerTLS(s.Etcd) })
		s.run()
		s.expectDone()
		Expect(s.Member(member).NeedsSnapshot).To(BeFalse())
		s.inject("peer TLS is switched on", func() { withPeerTLS(s.Etcd) })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-tls-with-a-member-behind")
	})

	It("transfers the leadership to a member with peer TLS if another one needs a raft snapshot", func() {
		s := created(5)
		s.inject("peer TLS is switched on", func() { withPeerTLS(s.Etcd) })
		s.runUntil(func() bool { return s.steps["EvictPod"] == 2 })
		member := restarting(s)
		s.inject("the member is away for more writes than the leader keeps", func() { s.Member(member).NeedsSnapshot = true })
		s.run()
		s.expectDone()
		Expect(s.Member(member).NeedsSnapshot).To(BeFalse())
		Expect(s.steps["MoveLeader"]).To(BeNumerically(">", 0))
	})

	It("switches peer TLS on and off, one member after the other", func() {
		s := created(3)
		s.inject("peer TLS is switched on", func() { withPeerTLS(s.Etcd) })
		s.run()
		s.expectDone()
		s.inject("peer TLS is switched off", func() { withoutPeerTLS(s.Etcd) })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-tls-on-and-off")
	})

	It("changes to another CA for peers in three stages, and never leaves a member alone", func() {
		s := created(3, withPeerTLS)
		s.Objects.Secrets = peerSecrets()
		s.inject("spec.etcd.peerUrlTls names another CA and its certificate", func() { nameCA(s.Etcd, "other") })
		s.run()
		s.expectDone()
		Expect(s.steps).To(HaveKeyWithValue("EvictPod", 9))
		s.expectGolden("three-ca-changed")
	})

	It("changes the peer URLs of all members, one after the other", func() {
		s := created(3)
		s.StrictPorts = true
		s.inject("spec.etcd.serverPort becomes 2381", func() { s.Etcd.Spec.Etcd.ServerPort = new(int32(2381)) })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-urls-changed")
	})

	It("starts members that hibernated as they know each other, and switches peer TLS off then", func() {
		s := created(3, withPeerTLS)
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("peer TLS is switched off, and spec.replicas becomes 3", func() { withoutPeerTLS(s.Etcd); s.Etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
		Expect(s.Objects.Pods).To(HaveEach(HaveField("PeerTLS", false)))
		s.expectGolden("three-woken-without-peer-tls")
	})

	It("starts members that hibernated at the port at which they know each other, and changes it then", func() {
		s := created(3)
		s.StrictPorts = true
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("spec.etcd.serverPort becomes 2381, and spec.replicas 3", func() { s.Etcd.Spec.Etcd.ServerPort, s.Etcd.Spec.Replicas = new(int32(2381)), 3 })
		s.run()
		s.expectDone()
		for _, member := range s.Members {
			Expect(member.PeerURLs).To(HaveEach(HaveSuffix(":2381")))
		}
		s.expectGolden("three-woken-at-another-peer-port")
	})

	It("lets a person set the port between members back where a quorum is lost while it changes", func() {
		s := created(3)
		s.StrictPorts = true
		s.inject("spec.etcd.serverPort becomes 2381", func() { s.Etcd.Spec.Etcd.ServerPort = new(int32(2381)) })
		s.runUntil(func() bool { return s.steps["EvictPod"] > 0 })
		s.inject("spec.replicas becomes 0 before the first has a heartbeat", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		Expect(s.Leader).To(BeZero())
		s.inject("spec.etcd.serverPort becomes 2380 again", func() { s.Etcd.Spec.Etcd.ServerPort = nil })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-port-set-back")
	})

	It("has members that hibernate while peer TLS is being switched off start without", func() {
		s := created(3, withPeerTLS)
		s.inject("peer TLS is switched off", func() { withoutPeerTLS(s.Etcd) })
		s.runFor(3)
		s.inject("spec.replicas becomes 0 after the first was evicted", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		Expect(s.Objects.Pods).To(BeEmpty())
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
		s.expectGolden("three-hibernated-while-peer-tls-goes")
	})

	It("registers https peer URLs again if peer TLS is not switched off after all", func() {
		s := created(3, withPeerTLS)
		s.inject("peer TLS is switched off, and a drain is under way", func() { withoutPeerTLS(s.Etcd); s.RefuseEvictions(5) })
		s.runFor(5)
		s.inject("peer TLS is switched on again", func() { withPeerTLS(s.Etcd) })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-tls-off-and-not")
	})

	It("hibernates, wakes all members together, and is then scaled in and out", func() {
		s := created(3)
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		Expect(s.Objects.Pods).To(BeEmpty())
		s.inject("spec.replicas becomes 1", func() { s.Etcd.Spec.Replicas = 1 })
		s.run()
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
		s.expectGolden("three-hibernated-and-woken")
	})

	It("leaves a lost pod to the StatefulSet", func() {
		s := created(3)
		s.inject("pod main-1 is deleted", func() { s.DeletePod(1) })
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("EvictPod"))
		s.expectGolden("three-pod-lost")
	})

	It("deletes nothing of a node that is cut off", func() {
		s := created(3)
		id := s.Member(2).ID
		s.inject("node n3 is cut off", func() { s.PartitionNode("n3", true) })
		s.run()
		s.inject("node n3 recovers", func() { s.PartitionNode("n3", false) })
		s.run()
		s.expectDone()
		Expect(s.Member(2).ID).To(Equal(id))
		s.expectGolden("three-node-partitioned")
	})

	DescribeTable("replaces a volume that went with its node",
		func(golden, what string, lose func(*scenario)) {
			s := created(3)
			s.inject(what, func() { lose(s) })
			s.run()
			s.expectDone()
			s.expectGolden(golden)
		},
		Entry("that is gone", "three-node-gone", "node n3 is gone", func(s *scenario) { s.RemoveNode("n3") }),
		Entry("that is out of service", "three-node-out-of-service", "node n3 is cut off and tainted out-of-service", func(s *scenario) { s.PartitionNode("n3", true); s.TaintNode("n3") }),
	)

	It("gives up a volume after a snapshot was verified, and waits for the store to take it", func() {
		s := created(3, withStore)
		s.inject("the store goes down, and node n3 is gone", func() { s.Store.Down = true; s.RemoveNode("n3") })
		s.runFor(30)
		Expect(s.steps).NotTo(HaveKey("ReplaceClaim"))
		s.inject("the store recovers", func() { s.Store.Down = false })
		s.run()
		s.expectDone()
		s.expectGolden("three-node-gone-with-store")
	})

	It("gives up volumes without the store after half an hour, one after the other", func() {
		s := created(5, withStore)
		s.inject("the store goes down, and nodes n4 and n5 are gone", func() { s.Store.Down = true; s.RemoveNode("n4"); s.RemoveNode("n5") })
		s.runUntil(func() bool { return s.Objects.SnapshotAttempts.Failures > 3 })
		Expect(s.steps).NotTo(HaveKey("ReplaceClaim"))
		s.inject("half an hour passes", func() { s.Advance(26 * time.Minute) })
		s.runUntil(func() bool { // etcd adds no member before the other lost one is removed
			healthy, all := s.Voters()

			return healthy == 3 && all == 4
		})
		Expect(s.steps).To(HaveKeyWithValue("ReplaceClaim", 1))
		s.run()
		s.expectDone()
		Expect(s.steps).To(HaveKeyWithValue("ReplaceClaim", 2))
		s.expectGolden("five-nodes-gone-without-store")
	})

	It("hibernates after a snapshot was verified", func() {
		s := created(3, withStore)
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		Expect(s.Objects.Pods).To(BeEmpty())
		Expect(s.violations()).To(BeEmpty())
		s.expectGolden("three-hibernated-with-store")
	})

	It("replaces the claim of a volume that does not exist any more", func() {
		s := created(3)
		s.inject("the volume of main-1 is deleted, and its pod with it", func() {
			s.LoseVolume(1)
			s.DeletePod(1)
		})
		s.run()
		s.expectDone()
		s.expectGolden("three-volume-lost")
	})

	It("wakes what is left of a cluster that is made again without its first claim", func() {
		s := created(3)
		s.inject("the Etcd is deleted and its claims stay, but for main-main-0, and it is made again", func() { s.RecreateEtcd(0) })
		s.run()
		s.expectDone()
		s.expectGolden("three-made-again-without-the-first-claim")
	})

	It("starts nothing where too few claims are left of a cluster that is made again", func() {
		s := created(3)
		s.inject("the Etcd is deleted and its claims stay, but for main-main-0 and main-main-1, and it is made again", func() { s.RecreateEtcd(0, 1) })
		s.run()
		Expect(s.violations()).To(BeEmpty())
		Expect(s.Objects.Pods).To(BeEmpty())
		s.expectGolden("three-made-again-with-too-few-claims")
	})

	It("starts nothing of a cluster that is recreated with fewer members than there are claims of the previous one, until it has the previous size", func() {
		s := created(3)
		s.Write(100)
		s.inject("the Etcd is deleted and its claims stay, and it is made again with one member", func() { s.Etcd.Spec.Replicas = 1; s.RecreateEtcd() })
		s.run()
		Expect(s.Objects.Pods).To(BeEmpty())
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
		s.expectGolden("three-made-again-as-one")
	})

	It("starts a member alone once the claims of the others are gone", func() {
		s := created(3)
		s.Etcd.Spec.Replicas = 1
		s.RecreateEtcd()
		p := planner.For(s.Etcd, s.Objects, s.Now())
		Expect(p.WaitsFor).To(Equal("spec.replicas to be 3, or main-main-1 and main-main-2 to be deleted if their data is not needed. Members that voted together may have no quorum after one of their volumes is deleted"))
		s.RecreateEtcd(1, 2)
		Expect(planner.For(s.Etcd, s.Objects, s.Now()).Stage).To(BeEquivalentTo("WakeUp"))
	})

	It("starts no five members if three are requested and there are claims of five", func() {
		s := created(5)
		s.Etcd.Spec.Replicas = 3
		s.RecreateEtcd()
		p := planner.For(s.Etcd, s.Objects, s.Now())
		Expect(p.Render).To(BeFalse())
		Expect(p.WaitsFor).To(HavePrefix("spec.replicas to be 5, or main-main-3 and main-main-4 to be deleted"))
	})

	It("restores a single member from the store over claims of three, once a user requests it", func() {
		s := created(3, withStore)
		s.Write(100)
		s.RenewLeases()
		s.Etcd.Spec.Replicas = 1
		s.RecreateEtcd()
		s.run()
		Expect(s.Objects.Pods).To(BeEmpty())
		s.Etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "from-store-unverified"}
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
		Expect(s.Objects.ClaimFor(1).Exists).To(BeFalse(), "nothing of the earlier cluster is left")
	})

	It("lets the sidecar repair a volume that was corrupted", func() {
		s := created(3)
		s.inject("the data of main-1 is corrupted", func() { s.CorruptVolume(1) })
		s.run()
		s.expectDone()
		s.expectGolden("three-volume-corrupted")
	})

	It("attempts nothing while the quorum is lost for a while", func() {
		s := created(3)
		s.inject("nodes n2 and n3 are cut off", func() { s.PartitionNode("n2", true); s.PartitionNode("n3", true) })
		s.run()
		s.inject("both recover", func() { s.PartitionNode("n2", false); s.PartitionNode("n3", false) })
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("DeletePod"))
		s.expectGolden("three-quorum-lost-for-a-while")
	})

	It("changes nothing when the quorum cannot recover, and reports what is left", func() {
		s := created(3, withStore)
		s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
		s.run()
		Expect(s.violations()).To(BeEmpty())
		Expect(s.steps).NotTo(HaveKey("ReplaceClaim"))
		s.expectGolden("three-quorum-lost-for-good")
	})
})

var _ = Describe("Traces of volumes and faults", func() {
	var s *scenario

	BeforeEach(func() {
		s = newScenario(3)
		s.run()
		s.expectDone()
		s.Leader = s.Member(1).ID // as after an election
		s.Refresh()
		s.resetTrace()
	})
	capacity := func(size string) func() {
		return func() {
			s.Etcd.Spec.StorageCapacity = new(resource.MustParse(size))
			s.Refresh()
		}
	}

	It("expands volumes in use, and then recreates the StatefulSet without its pods", func() {
		pods := s.Objects.Pods
		s.inject("spec.storageCapacity becomes 20Gi", capacity("20Gi"))
		s.run()
		s.expectDone()
		Expect(s.Objects.Pods).To(HaveLen(3))
		for i, pod := range s.Objects.Pods {
			Expect(pod.UID).To(Equal(pods[i].UID))
			Expect(s.Objects.Claims[i].Requested).To(BeEquivalentTo(20 << 30))
		}
		Expect(s.Objects.StatefulSet.Rendering.Fixed.ClaimTemplates[0].Request).To(BeEquivalentTo(20 << 30))
		s.expectGolden("three-volumes-expanded")
	})

	It("mounts volumes again, one after the other and the leader's last, whose file systems cannot be expanded in use", func() {
		s.OfflineExpansion, s.idleTicks = true, 100
		pods := slices.Clone(s.Objects.Pods)
		s.inject("spec.storageCapacity becomes 20Gi", capacity("20Gi"))
		s.run()
		s.expectDone()
		Expect(s.steps).To(And(HaveKeyWithValue("EvictPod", 3), HaveKeyWithValue("MoveLeader", 1)))
		for i, pod := range s.Objects.Pods {
			Expect(pod.UID).NotTo(Equal(pods[i].UID))
			Expect(s.Objects.Claims[i].Capacity).To(BeEquivalentTo(20 << 30))
		}
		s.expectGolden("three-volumes-expanded-when-mounted")
	})

	It("replaces pods and scales up while a quota refuses larger volumes, and expands them when it has room", func() {
		s.SetQuotaExhausted(true)
		s.inject("spec.storageCapacity becomes 20Gi, for which the quota has no room, the image v2, and spec.replicas 5", func() {
			s.image, s.Etcd.Spec.Replicas = "v2", 5
			capacity("20Gi")()
		})
		s.runFor(30)
		Expect(s.violations()).To(BeEmpty())
		alive, all := s.Voters()
		Expect([]int{alive, all}).To(Equal([]int{5, 5}))
		for _, pod := range s.Objects.Pods {
			Expect(pod.RevisionHash).To(HavePrefix("rev-v2"))
			Expect(s.Objects.Claims[pod.Ordinal].Requested).To(BeEquivalentTo(16 << 30))
		}
		Expect(s.steps).NotTo(HaveKey("RecreateStatefulSet"), "its template says how large the volumes are")

		s.inject("the quota has room", func() { s.SetQuotaExhausted(false) })
		s.run()
		s.expectDone()
		for ordinal := range 5 {
			Expect(s.Objects.Claims[ordinal].Requested).To(BeEquivalentTo(20 << 30))
		}
		s.expectGolden("three-volumes-refused-by-a-quota")
	})

	It("refuses larger volumes that are not expandable, and continues when that is reverted", func() {
		s.FixedVolumes = true
		s.inject("spec.storageCapacity becomes 20Gi, which the StorageClass does not allow, and the image v2", func() {
			capacity("20Gi")()
			s.image = "v2"
		})
		s.run()
		Expect(s.steps).To(BeEmpty())
		s.inject("spec.storageCapacity becomes 8Gi", capacity("8Gi"))
		s.run()
		Expect(s.steps).To(BeEmpty())
		s.inject("spec.storageCapacity becomes 16Gi again", capacity("16Gi"))
		s.run()
		s.expectDone()
		s.expectGolden("three-volumes-not-expandable")
	})

	It("replaces a volume that is lost also while no annotation requests the spec", func() {
		s.inject("the image becomes v2, which no annotation requests, and node n3 is gone", func() {
			s.image, s.operator.Config.AutoReconcile = "v2", false
			s.RemoveNode("n3")
		})
		s.run()
		alive, all := s.Voters()
		Expect([]int{alive, all}).To(Equal([]int{3, 3}))
		Expect(s.steps).To(Equal(map[string]int{"ReplaceClaim": 1, "PromoteMember": 1}))
		s.inject("an annotation requests it", func() { s.operator.Config.AutoReconcile = true })
		s.run()
		s.expectDone()
		s.expectGolden("three-node-gone-not-asked-for")
	})

	It("replaces a volume that is lost if the spec was never recorded, and no annotation requests the newest generation", func() {
		s.inject("the image becomes v2, which no annotation requests, and node n3 is gone", func() {
			s.image, s.operator.Config.AutoReconcile, s.Objects.State.Accepted = "v2", false, nil
			s.RemoveNode("n3")
		})
		s.run()
		Expect(s.repairs).To(BeNumerically(">", 0))
		Expect(s.violations()).To(BeEmpty())
		alive, all := s.Voters()
		Expect([]int{alive, all}).To(Equal([]int{3, 3}))
		Expect(s.Written().Image).To(Equal("v1"))
	})

	It("takes no step while members are of two clusters", func() {
		s.inject("the data of main-2 becomes that of another cluster, and the image v2", func() {
			s.image = "v2"
			s.UseForeignData(2)
			s.Refresh()
		})
		s.run()
		Expect(s.steps).To(BeEmpty())
		Expect(s.Written().Image).To(Equal("v1"), "nor is anything rendered")
		s.inject("a user empties its volume", func() { s.RemoveForeignData(); s.CorruptVolume(2) })
		s.run()
		s.expectDone()
		s.expectGolden("three-two-clusters")
	})
})
