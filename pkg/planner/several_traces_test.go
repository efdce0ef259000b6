// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

var _ = Describe("Traces of several members", func() {
	created := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *seed {
		GinkgoHelper()
		s := newSeed(replicas, change...)
		s.run()
		s.expectDone()
		if replicas > 1 { // as after an election
			s.leader = s.listed(1).id
			s.see()
		}
		s.trace, s.last, s.steps = nil, "", map[string]int{}

		return s
	}

	It("creates three members, one voter first and then learners one at a time", func() {
		s := newSeed(3)
		s.run()
		s.expectDone()
		s.expectGolden("three-created")
	})

	DescribeTable("grows from one member to three",
		func(golden string, change ...func(*druidv1alpha1.Etcd)) {
			s := created(1, change...)
			s.event("spec.replicas becomes 3", func() { s.etcd.Spec.Replicas = 3 })
			s.run()
			s.expectDone()
			s.expectGolden(golden)
		},
		Entry("with a store, after its restart", "one-to-three", withStore),
		Entry("without a store, before its restart", "one-to-three-without-store"),
	)

	It("keeps one lineage where the etcd of the first member is killed at any time while it grows, the third member being unschedulable for long", func() {
		for tick := range 40 {
			s := created(1, withStore)
			s.nodes = s.nodes[:2]
			s.event("spec.replicas becomes 3, and only two nodes have room", func() { s.etcd.Spec.Replicas = 3 })
			s.runFor(tick)
			s.event("the etcd of main-0 is killed, and its database is older than the newest delta snapshot", func() { s.restartEtcd(0) })
			s.run()
			Expect(s.violations).To(BeEmpty(), "killed after %d ticks", tick)
			_, voters := s.voters()
			Expect(voters).To(Equal(2), "killed after %d ticks", tick)
		}
	})

	It("switches peer TLS on before it grows", func() {
		s := created(1, withStore)
		s.event("spec.replicas becomes 3, and peer TLS is switched on", func() {
			s.etcd.Spec.Replicas = 3
			s.etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{}
		})
		s.run()
		s.expectDone()
		s.expectGolden("one-to-three-with-peer-tls")
	})

	It("grows from three members to five", func() {
		s := created(3)
		s.event("spec.replicas becomes 5", func() { s.etcd.Spec.Replicas = 5 })
		s.run()
		s.expectDone()
		s.expectGolden("three-to-five")
	})

	It("replaces followers, then the leader after it handed over", func() {
		s := created(3)
		s.event("the image becomes v2", func() { s.image = "v2" })
		s.run()
		s.expectDone()
		s.expectGolden("three-image-changed")
	})

	It("waits while an eviction is refused", func() {
		s := created(3)
		s.event("the image becomes v2, and a drain is under way", func() { s.image, s.refuseEvictions = "v2", 2 })
		s.run()
		s.expectDone()
		s.expectGolden("three-eviction-refused")
	})

	It("replaces pods that do not serve before others", func() {
		s := created(3)
		s.event("pod main-2 cannot start again, and the image becomes v2", func() {
			s.brokenImages["v1-broken"] = true
			s.seen.PodFor(2).Containers[0].Image = "v1-broken"
			s.image = "v2"
		})
		s.run()
		s.expectDone()
		s.expectGolden("three-unhealthy-first")
	})

	It("replaces two members whose sidecars do not start, one of them the leader, one after the other although neither gets ready by itself", func() {
		s := created(3)
		s.event("the sidecars of main-0 and of main-1, which leads, do not start again, and the image becomes v2", func() {
			s.halfBroken[s.seen.PodFor(0).UID], s.halfBroken[s.seen.PodFor(1).UID] = true, true
			s.image = "v2"
		})
		s.run()
		s.expectDone()
		s.expectGolden("three-two-unready-pods")
	})

	It("waits for a pod of the newest template that does not get ready, whoever else is not ready", func() {
		s := created(3)
		s.event("the sidecars of all members do not start again, and the image becomes v2, which is broken", func() {
			for _, pod := range s.seen.Pods {
				s.halfBroken[pod.UID] = true
			}
			s.image, s.brokenImages["v2"] = "v2", true
		})
		s.run()
		alive, all := s.voters()
		Expect([]int{alive, all}).To(Equal([]int{2, 3}))
		Expect(s.steps["DeletePod"] + s.steps["EvictPod"]).To(Equal(1))
		Expect(s.violations).To(BeEmpty())
	})

	It("replaces a leader first whose sidecar does not start", func() {
		s := created(3)
		s.event("the sidecar of main-1, which leads, does not start again, and the image becomes v2", func() {
			s.halfBroken[s.seen.PodFor(1).UID] = true
			s.image = "v2"
		})
		s.run()
		s.expectDone()
		s.expectGolden("three-leader-with-an-unready-pod")
	})

	It("stops a broken image at the first pod, and resumes when it is corrected", func() {
		s := created(3)
		s.event("the image becomes v2, which is broken", func() { s.image, s.brokenImages["v2"] = "v2", true })
		s.run()
		alive, all := s.voters()
		Expect([]int{alive, all}).To(Equal([]int{2, 3}))
		s.event("the image becomes v3, which works", func() { s.image = "v3" })
		s.run()
		s.expectDone()
		s.expectGolden("three-broken-image")
	})

	It("replaces all pods together where the first image never worked", func() {
		s := created(3)
		s.event("all images break, and the nodes restart", func() {
			s.brokenImages["v1"] = true
		})
		s.run()
		s.event("the image becomes v2, which works", func() { s.image = "v2" })
		s.run()
		s.expectDone()
		s.expectGolden("three-nobody-serves")
	})

	It("replaces the only pod where the first image never worked and the cluster never formed", func() {
		s := newSeed(3)
		s.image, s.brokenImages["v1"] = "v1", true
		s.run()
		s.event("the image becomes v2, which works", func() { s.image = "v2" })
		s.run()
		s.expectDone()
		s.expectGolden("three-never-formed")
	})

	It("switches peer TLS on and off, one member after the other", func() {
		s := created(3)
		s.event("peer TLS is switched on", func() { s.etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{} })
		s.run()
		s.expectDone()
		s.event("peer TLS is switched off", func() { s.etcd.Spec.Etcd.PeerUrlTLS = nil })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-tls-on-and-off")
	})

	It("changes the peer URLs of all members, one after the other", func() {
		s := created(3)
		s.portsMatter = true
		s.event("spec.etcd.serverPort becomes 2381", func() { s.etcd.Spec.Etcd.ServerPort = new(int32(2381)) })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-urls-changed")
	})

	It("starts members that hibernated as they know each other, and switches peer TLS off then", func() {
		s := created(3, withPeerTLS)
		s.event("spec.replicas becomes 0", func() { s.etcd.Spec.Replicas = 0 })
		s.run()
		s.event("peer TLS is switched off, and spec.replicas becomes 3", func() { s.etcd.Spec.Etcd.PeerUrlTLS, s.etcd.Spec.Replicas = nil, 3 })
		s.run()
		s.expectDone()
		Expect(s.seen.Pods).To(HaveEach(HaveField("PeerTLS", false)))
		s.expectGolden("three-woken-without-peer-tls")
	})

	It("starts members that hibernated at the port at which they know each other, and changes it then", func() {
		s := created(3)
		s.portsMatter = true
		s.event("spec.replicas becomes 0", func() { s.etcd.Spec.Replicas = 0 })
		s.run()
		s.event("spec.etcd.serverPort becomes 2381, and spec.replicas 3", func() { s.etcd.Spec.Etcd.ServerPort, s.etcd.Spec.Replicas = new(int32(2381)), 3 })
		s.run()
		s.expectDone()
		for _, member := range s.members {
			Expect(member.peerURL).To(HaveSuffix(":2381"))
		}
		s.expectGolden("three-woken-at-another-peer-port")
	})

	It("lets a person set the port between members back where a quorum is lost while it changes", func() {
		s := created(3)
		s.portsMatter = true
		s.event("spec.etcd.serverPort becomes 2381", func() { s.etcd.Spec.Etcd.ServerPort = new(int32(2381)) })
		s.runUntil(func() bool { return s.steps["EvictPod"] > 0 })
		s.event("spec.replicas becomes 0 before the first has told of it", func() { s.etcd.Spec.Replicas = 0 })
		s.run()
		s.event("spec.replicas becomes 3", func() { s.etcd.Spec.Replicas = 3 })
		s.run()
		Expect(s.leader).To(BeZero())
		s.event("spec.etcd.serverPort becomes 2380 again", func() { s.etcd.Spec.Etcd.ServerPort = nil })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-port-set-back")
	})

	It("has members that hibernate while peer TLS is being switched off start without", func() {
		s := created(3, withPeerTLS)
		s.event("peer TLS is switched off", func() { s.etcd.Spec.Etcd.PeerUrlTLS = nil })
		s.runFor(3)
		s.event("spec.replicas becomes 0 after the first was evicted", func() { s.etcd.Spec.Replicas = 0 })
		s.run()
		Expect(s.seen.Pods).To(BeEmpty())
		s.event("spec.replicas becomes 3", func() { s.etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
		s.expectGolden("three-hibernated-while-peer-tls-goes")
	})

	It("has members known by https again where peer TLS is not switched off after all", func() {
		s := created(3, withPeerTLS)
		s.event("peer TLS is switched off, and a drain is under way", func() { s.etcd.Spec.Etcd.PeerUrlTLS, s.refuseEvictions = nil, 5 })
		s.runFor(5)
		s.event("peer TLS is switched on again", func() { withPeerTLS(s.etcd) })
		s.run()
		s.expectDone()
		s.expectGolden("three-peer-tls-off-and-not")
	})

	It("hibernates, and wakes all members together", func() {
		s := created(3)
		s.event("spec.replicas becomes 0", func() { s.etcd.Spec.Replicas = 0 })
		s.run()
		Expect(s.seen.Pods).To(BeEmpty())
		s.event("spec.replicas becomes 1", func() { s.etcd.Spec.Replicas = 1 })
		s.run()
		s.event("spec.replicas becomes 3", func() { s.etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
		s.expectGolden("three-hibernated-and-woken")
	})

	It("leaves a lost pod to the StatefulSet", func() {
		s := created(3)
		s.event("pod main-1 is deleted", func() { s.terminate(s.seen.PodFor(1)) })
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("EvictPod"))
		s.expectGolden("three-pod-lost")
	})

	It("deletes nothing of a node that is cut off", func() {
		s := created(3)
		id := s.listed(2).id
		s.event("node n3 is cut off", func() { s.nodes[2].partitioned = true })
		s.run()
		s.event("node n3 is back", func() { s.nodes[2].partitioned = false })
		s.run()
		s.expectDone()
		Expect(s.listed(2).id).To(Equal(id))
		s.expectGolden("three-node-partitioned")
	})

	DescribeTable("replaces a volume that went with its node",
		func(golden, what string, lose func(*simNode)) {
			s := created(3)
			s.event(what, func() { lose(s.nodes[2]) })
			s.run()
			s.expectDone()
			s.expectGolden(golden)
		},
		Entry("that is gone", "three-node-gone", "node n3 is gone", func(n *simNode) { n.gone = true }),
		Entry("that is out of service", "three-node-out-of-service", "node n3 is cut off and tainted out-of-service", func(n *simNode) { n.partitioned, n.outOfService = true, true }),
	)

	It("gives up a volume after a snapshot was verified, and waits for the store to take it", func() {
		s := created(3, withStore)
		s.event("the store goes down, and node n3 is gone", func() { s.storeDown, s.nodes[2].gone = true, true })
		s.runFor(30)
		Expect(s.steps).NotTo(HaveKey("ReplaceClaim"))
		s.event("the store comes back", func() { s.storeDown = false })
		s.run()
		s.expectDone()
		s.expectGolden("three-node-gone-with-store")
	})

	It("hibernates after a snapshot was verified", func() {
		s := created(3, withStore)
		s.event("spec.replicas becomes 0", func() { s.etcd.Spec.Replicas = 0; s.respec() })
		s.run()
		Expect(s.seen.Pods).To(BeEmpty())
		Expect(s.violations).To(BeEmpty())
		s.expectGolden("three-hibernated-with-store")
	})

	It("replaces the claim of a volume that does not exist any more", func() {
		s := created(3)
		s.event("the volume of main-1 is deleted, and its pod with it", func() {
			s.volumes["main-main-1"].lost = true
			s.terminate(s.seen.PodFor(1))
		})
		s.run()
		s.expectDone()
		s.expectGolden("three-volume-lost")
	})

	It("wakes what is left of a cluster that is made again without its first claim", func() {
		s := created(3)
		s.event("the Etcd is deleted and its claims stay, but for main-main-0, and it is made again", func() { s.makeAgainWithout(0) })
		s.run()
		s.expectDone()
		s.expectGolden("three-made-again-without-the-first-claim")
	})

	It("starts nothing where too few claims are left of a cluster that is made again", func() {
		s := created(3)
		s.event("the Etcd is deleted and its claims stay, but for main-main-0 and main-main-1, and it is made again", func() { s.makeAgainWithout(0, 1) })
		s.run()
		Expect(s.violations).To(BeEmpty())
		Expect(s.seen.Pods).To(BeEmpty())
		s.expectGolden("three-made-again-with-too-few-claims")
	})

	It("starts nothing of a cluster that is made again with fewer members than have left claims, until it is as large as it was", func() {
		s := created(3)
		s.keys = 100
		s.event("the Etcd is deleted and its claims stay, and it is made again with one member", func() { s.etcd.Spec.Replicas = 1; s.makeAgainWithout() })
		s.run()
		Expect(s.seen.Pods).To(BeEmpty())
		s.event("spec.replicas becomes 3", func() { s.etcd.Spec.Replicas = 3; s.respec() })
		s.run()
		s.expectDone()
		Expect(s.keys).To(Equal(100))
		s.expectGolden("three-made-again-as-one")
	})

	It("starts a member alone once the claims of the others are gone", func() {
		s := created(3)
		s.etcd.Spec.Replicas = 1
		s.makeAgainWithout()
		p := planner.For(s.etcd, s.seen, s.now)
		Expect(p.WaitsFor).To(Equal("spec.replicas to be 3, or main-main-1 and main-main-2 to be deleted if the data there is worth nothing"))
		s.makeAgainWithout(1, 2)
		Expect(planner.For(s.etcd, s.seen, s.now).Stage).To(BeEquivalentTo("Wake"))
	})

	It("starts no five members where three are asked for and five have left claims", func() {
		s := created(5)
		s.etcd.Spec.Replicas = 3
		s.makeAgainWithout()
		p := planner.For(s.etcd, s.seen, s.now)
		Expect(p.Render).To(BeFalse())
		Expect(p.WaitsFor).To(HavePrefix("spec.replicas to be 5, or main-main-3 and main-main-4 to be deleted"))
	})

	It("restores a single member from the store over claims of three, once a person asks for it", func() {
		s := created(3, withStore)
		s.keys = 100
		s.snapshots()
		s.etcd.Spec.Replicas = 1
		s.makeAgainWithout()
		s.run()
		Expect(s.seen.Pods).To(BeEmpty())
		s.etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "from-store-unverified"}
		s.run()
		s.expectDone()
		Expect(s.keys).To(Equal(100))
		Expect(s.seen.ClaimFor(1).Exists).To(BeFalse(), "nothing of the earlier cluster is left")
	})

	It("lets the sidecar repair a volume that was corrupted", func() {
		s := created(3)
		s.event("the data of main-1 is corrupted", func() { s.volumes["main-main-1"].member = 0 })
		s.run()
		s.expectDone()
		s.expectGolden("three-volume-corrupted")
	})

	It("attempts nothing while the quorum is lost for a while", func() {
		s := created(3)
		s.event("nodes n2 and n3 are cut off", func() { s.nodes[1].partitioned, s.nodes[2].partitioned = true, true })
		s.run()
		s.event("both are back", func() { s.nodes[1].partitioned, s.nodes[2].partitioned = false, false })
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("DeletePod"))
		s.expectGolden("three-quorum-lost-for-a-while")
	})

	It("attempts nothing when the quorum is lost for good, and tells what is left", func() {
		s := created(3, withStore)
		s.event("nodes n2 and n3 are gone", func() { s.nodes[1].gone, s.nodes[2].gone = true, true })
		s.run()
		Expect(s.violations).To(BeEmpty())
		Expect(s.steps).NotTo(HaveKey("ReplaceClaim"))
		s.expectGolden("three-quorum-lost-for-good")
	})
})

var _ = Describe("Traces of volumes and faults beside the spec", func() {
	var s *seed

	BeforeEach(func() {
		s = newSeed(3)
		s.run()
		s.expectDone()
		s.leader = s.listed(1).id // as after an election
		s.see()
		s.trace, s.last, s.steps = nil, "", map[string]int{}
	})
	capacity := func(size string) func() {
		return func() {
			s.etcd.Spec.StorageCapacity = new(resource.MustParse(size))
			s.see()
		}
	}

	It("lets volumes grow in place, and then makes the StatefulSet anew around its pods", func() {
		pods := s.seen.Pods
		s.event("spec.storageCapacity becomes 20Gi", capacity("20Gi"))
		s.run()
		s.expectDone()
		Expect(s.seen.Pods).To(HaveLen(3))
		for i, pod := range s.seen.Pods {
			Expect(pod.UID).To(Equal(pods[i].UID))
			Expect(s.seen.Claims[i].Requested).To(BeEquivalentTo(20 << 30))
		}
		Expect(s.seen.StatefulSet.Rendering.Fixed.ClaimTemplates[0].Request).To(BeEquivalentTo(20 << 30))
		s.expectGolden("three-volumes-grow")
	})

	It("mounts volumes anew, one after the other and the leader's last, whose file systems cannot grow while they are used", func() {
		s.offline, s.patience = true, 100
		pods := slices.Clone(s.seen.Pods)
		s.event("spec.storageCapacity becomes 20Gi", capacity("20Gi"))
		s.run()
		s.expectDone()
		Expect(s.steps).To(And(HaveKeyWithValue("EvictPod", 3), HaveKeyWithValue("MoveLeader", 1)))
		for i, pod := range s.seen.Pods {
			Expect(pod.UID).NotTo(Equal(pods[i].UID))
			Expect(s.seen.Claims[i].Capacity).To(BeEquivalentTo(20 << 30))
		}
		s.expectGolden("three-volumes-grow-when-mounted")
	})

	It("replaces pods and grows while a quota refuses that volumes grow, and lets them grow when it has room", func() {
		s.quotaFull = true
		s.event("spec.storageCapacity becomes 20Gi, for which the quota has no room, the image v2, and spec.replicas 5", func() {
			s.image, s.etcd.Spec.Replicas = "v2", 5
			capacity("20Gi")()
		})
		s.runFor(30)
		Expect(s.violations).To(BeEmpty())
		alive, all := s.voters()
		Expect([]int{alive, all}).To(Equal([]int{5, 5}))
		for _, pod := range s.seen.Pods {
			Expect(pod.RevisionHash).To(HavePrefix("rev-v2"))
			Expect(s.seen.Claims[pod.Ordinal].Requested).To(BeEquivalentTo(16 << 30))
		}
		Expect(s.steps).NotTo(HaveKey("RecreateStatefulSet"), "its template says how large the volumes are")

		s.event("the quota has room", func() { s.quotaFull = false })
		s.run()
		s.expectDone()
		for ordinal := range 5 {
			Expect(s.seen.Claims[ordinal].Requested).To(BeEquivalentTo(20 << 30))
		}
		s.expectGolden("three-volumes-refused-by-a-quota")
	})

	It("refuses that volumes grow that cannot, and goes on when that is taken back", func() {
		s.rigid = true
		s.event("spec.storageCapacity becomes 20Gi, which the StorageClass does not allow, and the image v2", func() {
			capacity("20Gi")()
			s.image = "v2"
		})
		s.run()
		Expect(s.steps).To(BeEmpty())
		s.event("spec.storageCapacity becomes 8Gi", capacity("8Gi"))
		s.run()
		Expect(s.steps).To(BeEmpty())
		s.event("spec.storageCapacity becomes 16Gi again", capacity("16Gi"))
		s.run()
		s.expectDone()
		s.expectGolden("three-volumes-cannot-grow")
	})

	It("replaces a volume that is lost also while nobody asks for what the spec says", func() {
		s.event("the image becomes v2, for which nobody asks, and node n3 is gone", func() {
			s.image, s.notAskedFor, s.nodes[2].gone = "v2", true, true
		})
		s.run()
		alive, all := s.voters()
		Expect([]int{alive, all}).To(Equal([]int{3, 3}))
		Expect(s.steps).To(Equal(map[string]int{"ReplaceClaim": 1}))
		s.event("somebody asks for it", func() { s.notAskedFor = false })
		s.run()
		s.expectDone()
		s.expectGolden("three-node-gone-not-asked-for")
	})

	It("takes no step while members are of two clusters", func() {
		s.event("the data of main-2 becomes that of another cluster, and the image v2", func() {
			s.strange, s.image = map[int]bool{2: true}, "v2"
			s.see()
		})
		s.run()
		Expect(s.steps).To(BeEmpty())
		Expect(s.written.image).To(Equal("v1"), "nor is anything rendered")
		s.event("somebody empties its volume", func() { s.strange, s.volumes["main-main-2"].member = nil, 0 })
		s.run()
		s.expectDone()
		s.expectGolden("three-two-clusters")
	})
})

func withPeerTLS(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{}
}

// expectDone expects that all members are voters, serve, and run the newest image, and that no promise was broken.
func (s *seed) expectDone() {
	GinkgoHelper()
	Expect(s.violations).To(BeEmpty())
	p := planner.For(s.etcd, s.seen, s.now)
	p = planner.Gate(p, s.manifestFor(p).rendering(), s.seen)
	Expect(p.Outcome()).To(Equal(plan.OutcomeDone), "%s: %s, waits for %s", p.Stage, p.Reason, p.WaitsFor)
	alive, all := s.voters()
	Expect([]int{alive, all, len(s.members)}).To(Equal([]int{int(s.etcd.Spec.Replicas), int(s.etcd.Spec.Replicas), int(s.etcd.Spec.Replicas)}))
	for _, pod := range s.seen.Pods {
		Expect(pod.Containers[0].Image).To(Equal(s.image))
	}
}
