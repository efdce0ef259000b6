// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("For multiple members", func() {
	var (
		now  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Spec.Replicas = 3
		o = etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main"}, State: state.State{Size: 3, Replicas: new(int32(3))},
			StatefulSet: etcdcluster.StatefulSet{Exists: true, Name: "main", SpecReplicas: 3, UpdateRevision: "new"},
			Etcd:        etcdcluster.EtcdResponses{Queried: true},
		}
		for ordinal := range 3 {
			id := uint64(0xa1 + ordinal) // #nosec G115 -- 0 to 2
			name := fmt.Sprintf("main-%d", ordinal)
			o.Pods = append(o.Pods, etcdcluster.Pod{
				Name: name, Ordinal: ordinal, UID: types.UID("uid-of-" + name), RevisionHash: "new", Ready: true, ContainersReady: true,
				Containers: []etcdcluster.Container{{Name: "etcd", State: "Running"}}, CreationTime: now.Add(-time.Hour),
			})
			o.Claims = append(o.Claims, etcdcluster.Claim{Name: "main-" + name, Ordinal: ordinal, Exists: true, UID: types.UID("claim-" + name), Nodes: []string{fmt.Sprintf("n%d", ordinal)}})
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: ordinal, Reachable: true, Healthy: true, MemberID: id, ClusterID: 1, LeaderID: 0xa1})
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: id, Name: name, PeerURLs: []string{"http://" + name + ".main-peer.demo.svc:2380"}})
		}
	})

	p := func() plan.Plan { return planner.For(etcd, o, now) }
	// unreachable makes a member neither respond nor pass its probe.
	unreachable := func(ordinal int) {
		o.Pods[ordinal].Ready, o.Pods[ordinal].ContainersReady = false, false
		o.Etcd.Members[ordinal] = etcdcluster.EndpointStatus{Ordinal: ordinal}
	}
	unlisted := func() { o.Etcd.MemberList, o.Etcd.MemberListError = nil, "timeout" }

	It("is done when all are healthy and run the latest rendered manifests", func() {
		Expect(p().Outcome()).To(Equal(plan.OutcomeDone), p().WaitsFor)
	})

	It("runs a member that has joined before where others have to join again, and lets no other join", func() {
		etcd.Spec.Replicas, o.State.Size = 5, 5
		o.Etcd.MemberList[2] = etcdcluster.ListedMember{ID: 0xa4, Name: "main-3", Learner: true, PeerURLs: []string{"http://main-3.main-peer.demo.svc:2380"}}
		unreachable(2)
		Expect(p().ScaleUp).To(Equal(&plan.Size{Replicas: 4, ClusterSize: 5}), p().Reason)
		Expect(p().Reason).To(Equal("2 of 2 healthy; main-3 has already joined as a learner, and no other member can join before its promotion"))
		o.Etcd.MemberList[2].Name = ""
		Expect(p().ScaleUp).NotTo(BeNil(), "it never ran, so that it has no name: %s", p().Reason)
		o.Etcd.MemberList[2].PeerURLs = []string{"https://main-3.main-peer.demo.svc:2380"}
		Expect(p().ScaleUp).NotTo(BeNil(), p().Reason)
		o.Etcd.MemberList[2].PeerURLs = []string{"http://main-4.main-peer.demo.svc:2380"}
		Expect(p().ScaleUp).To(BeNil(), p().Reason)
		o.Etcd.MemberList[2].Name = "main-4"
		Expect(p().ScaleUp).To(BeNil(), p().Reason)
		etcd.Spec.Replicas, o.Etcd.MemberList[2].Name = 3, "main-3"
		Expect(p().ScaleUp).To(BeNil(), "the spec requests no other")
	})

	It("runs a member that has joined before and never ran, as the next one", func() {
		etcd.Spec.Replicas, o.State.Size = 5, 5
		o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 0xa4, Learner: true, PeerURLs: []string{"http://main-3.main-peer.demo.svc:2380"}})
		Expect(p().ScaleUp).To(Equal(&plan.Size{Replicas: 4, ClusterSize: 5}), p().WaitsFor)
		etcd.Spec.Etcd.ServerPort = new(int32(2381))
		for ordinal := range o.Pods {
			o.Pods[ordinal].PeerPort = 2380
		}
		Expect(p().ScaleUp).NotTo(BeNil(), "it has joined at the port of before: %s", p().WaitsFor)
		o.Etcd.MemberList[3].PeerURLs = []string{"http://main-4.main-peer.demo.svc:2380"}
		Expect(p().ScaleUp).To(BeNil())
		Expect(p().WaitsFor).To(Equal("learner a4 to be promoted or to be removed"))
	})

	Describe("a member that does not join although its etcd runs", func() {
		BeforeEach(func() {
			unreachable(2)
			o.Etcd.MemberList[2].Name, o.Etcd.MemberList[2].Learner = "", true
			o.MemberLeases = []etcdcluster.Lease{{Name: "main-2"}}
			o.Pods[2].Containers[0].StartedAt = now.Add(-etcdcluster.MemberStartTimeout)
			o.Pods[2].Containers = append(o.Pods[2].Containers, etcdcluster.Container{Name: "backup-restore", State: "Running", StartedAt: now.Add(-etcdcluster.MemberStartTimeout)})
		})
		deletes := plan.DeletePod{Meta: plan.Meta{Object: "main-2", UID: "uid-of-main-2"}}
		delisted := func() { o.Etcd.MemberList = o.Etcd.MemberList[:2] }

		It("gets a new pod", func() {
			Expect(p().Step).To(Equal(deletes), p().Reason)
			Expect(p().Reason).To(Equal("2 of 2 healthy; main-2 has not joined within 2m0s: its etcd may have formed a separate cluster, and its pod is replaced"))
			Expect(planner.ForRepair(etcd, o, now).Step).To(Equal(deletes), "no annotation is needed")
			delisted()
			Expect(p().Step).To(Equal(deletes), p().Reason)
		})

		DescribeTable("is awaited for two minutes after", func(happens func(at time.Time)) {
			happens(now.Add(5*time.Second - etcdcluster.MemberStartTimeout))
			Expect(p().Step).To(BeNil(), p().Reason)
			Expect(p().RequeueAfter).To(Equal(5 * time.Second))
			Expect(planner.ForRepair(etcd, o, now).RequeueAfter).To(Equal(5 * time.Second))
		},
			Entry("the etcd container started", func(at time.Time) { o.Pods[2].Containers[0].StartedAt = at }),
			Entry("the sidecar started", func(at time.Time) { o.Pods[2].Containers[1].StartedAt = at }),
			Entry("a healthy member became ready", func(at time.Time) { o.Pods[1].ReadyChangedAt = at }),
		)

		DescribeTable("is awaited if", func(change func()) {
			change()
			Expect(p().Step).NotTo(Equal(deletes), p().Reason)
			Expect(p().RequeueAfter).To(BeZero())
		},
			Entry("it has a name: the leader has contacted it", func() { o.Etcd.MemberList[2].Name = "main-2" }),
			Entry("it is a voting member", func() { o.Etcd.MemberList[2].Learner = false }),
			Entry("it is registered with other peer URLs", func() { o.Pods[2].PeerPort = 2381 }),
			Entry("it responds", func() { o.Etcd.Members[2].Reachable = true }),
			Entry("its etcd waits for the next start", func() {
				o.Pods[2].Containers[0].State, o.Pods[2].Containers[0].Restarts = etcdcluster.ContainerWaiting, 1
			}),
			Entry("its sidecar does not run", func() { o.Pods[2].Containers[1].State = etcdcluster.ContainerWaiting }),
			Entry("another member is not healthy: etcd refuses to add a learner then", func() {
				o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 0xa4, Name: "main-3"})
			}),
			Entry("its node is unreachable", func() { o.Pods[2].ContainersReady = true }),
			Entry("no pod is ready: its sidecar cannot reach the cluster", func() { o.Pods[0].Ready, o.Pods[1].Ready = false, false }),
			Entry("it was a member before", func() {
				delisted()
				o.MemberLeases[0].Holder = "a3:Member"
			}),
			Entry("it is a recorded voting member", func() {
				delisted()
				o.State.Evidence = &state.Evidence{Voters: []state.Voter{{Name: "main-2"}}}
			}),
			Entry("its Lease does not exist", func() {
				delisted()
				o.MemberLeases = nil
			}),
			Entry("another learner joins", func() { o.Etcd.MemberList[2].PeerURLs = []string{"http://main-3.main-peer.demo.svc:2380"} }),
			Entry("its claim is older than the Etcd", func() {
				delisted()
				etcd.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
			}),
			Entry("no quorum has returned the member list", func() {
				delisted()
				unreachable(1)
			}),
		)
	})

	Describe("a learner that gets no data from the leader", func() {
		BeforeEach(func() {
			unreachable(2)
			o.Etcd.MemberList[2].Learner = true
			o.Pods[2].Containers[0].StartedAt = now.Add(-etcdcluster.MemberStartTimeout)
			o.Etcd.Members[0].RaftTerm, o.Etcd.Members[1].RaftTerm = 5, 5
			o.State.Evidence = &state.Evidence{Term: 5}
		})
		moves := plan.MoveLeader{Meta: plan.Meta{Object: "main-0", UID: "uid-of-main-0"}, To: 0xa2, ToName: "main-1"}

		It("gets another leader, which has no connection to its previous pod", func() {
			Expect(p().Step).To(Equal(moves), p().Reason)
			Expect(p().Reason).To(Equal("2 of 2 healthy; leader main-0 has sent no data to learner main-2 for 2m0s, perhaps because the connection is to its previous pod; main-1 becomes the leader"))
			Expect(planner.ForRepair(etcd, o, now).Step).To(BeNil())
		})

		DescribeTable("keeps its leader if", func(change func()) {
			change()
			Expect(p().Step).NotTo(BeAssignableToTypeOf(moves), p().Reason)
		},
			Entry("the leadership has changed since the last record", func() { o.Etcd.Members[0].RaftTerm = 6 }),
			Entry("no term is recorded", func() { o.State.Evidence.Term = 0 }),
			Entry("nothing is recorded", func() { o.State.Evidence = nil }),
			Entry("its etcd has just started", func() { o.Pods[2].Containers[0].StartedAt = now.Add(time.Second - etcdcluster.MemberStartTimeout) }),
			Entry("leaders have changed often enough", func() { o.Pods[2].Containers[0].StartedAt = now.Add(-5 * etcdcluster.MemberStartTimeout) }),
			Entry("it responds", func() { o.Etcd.Members[2].Reachable = true }),
			Entry("it is a voting member", func() { o.Etcd.MemberList[2].Learner = false }),
			Entry("the leader has not contacted it", func() { o.Etcd.MemberList[2].Name = "" }),
			Entry("no other voting member is healthy", func() {
				o.Etcd.MemberList = slices.Delete(o.Etcd.MemberList, 1, 2)
				unreachable(1)
			}),
			Entry("a member is being defragmented", func() { o.Defragmentation = "task" }),
		)
	})

	It("replaces no outdated pod without a quorum if the rendering is not accepted", func() {
		for ordinal := range 3 {
			unreachable(ordinal)
		}
		o.Pods[1].RevisionHash = "old"
		Expect(p().Step).To(HaveField("Object", "main-1"), p().Reason)
		Expect(planner.ForRepair(etcd, o, now).Step).To(BeNil())
	})

	It("gives every step on a pod the UID that was seen", func() {
		o.Pods[1].RevisionHash = "old"
		Expect(p().Step).To(Equal(plan.EvictPod{Meta: plan.Meta{Object: "main-1", UID: "uid-of-main-1"}}))
		Expect(p().Reason).To(Equal("3 of 3 healthy; replacing main-1 leaves 2 of 3: allowed"))
	})

	It("moves the leader to a member that runs the latest rendered manifests", func() {
		o.Pods[0].RevisionHash, o.Pods[1].RevisionHash = "old", "old"
		o.Etcd.Members[1].LeaderID, o.Etcd.Members[0].LeaderID, o.Etcd.Members[2].LeaderID = 0xa2, 0xa2, 0xa2
		Expect(p().Step).To(HaveField("Object", "main-0"), "a follower goes first")
		o.Pods[0].RevisionHash = "new"
		Expect(p().Step).To(Equal(plan.MoveLeader{Meta: plan.Meta{Object: "main-1", UID: "uid-of-main-1"}, To: 0xa1, ToName: "main-0"}))
	})

	DescribeTable("does not replace the pod of a healthy member",
		func(change func(), waitsFor string) {
			o.Pods[1].RevisionHash = "old"
			change()
			Expect(p().Step).To(BeNil(), p().Reason)
			Expect(p().WaitsFor).To(ContainSubstring(waitsFor))
		},
		Entry("without a list of members", unlisted, "timeout"),
		Entry("while an EtcdOpsTask defragments members", func() { o.Defragmentation = "shrink" }, "EtcdOpsTask shrink to end"),
		Entry("while another is a learner", func() {
			o.Etcd.Members[2].Learner, o.Etcd.Members[2].Healthy, o.Etcd.MemberList[2].Learner = true, false, true
		}, "catch up before its promotion"),
		Entry("while another's pod is not ready", func() { o.Pods[2].Ready = false }, "main-2"),
		Entry("while another advertises other peer URLs, for which its sidecar will stop it", func() {
			o.Pods[2].ReadyChangedAt = now.Add(-10 * time.Second)
			o.Etcd.MemberList[2].PeerURLs = []string{"https://elsewhere:2380"}
		}, "advertise"),
		Entry("while the heartbeat of another has not its peer URLs", func() {
			o.Pods[2].CreationTime = now.Add(-time.Minute)
			o.MemberLeases = []etcdcluster.Lease{{Name: "main-2", TLSEnabled: new(true)}}
		}, "heartbeat of member main-2"),
		Entry("while the voters are more than those that run and too few of them serve", func() {
			for id := range 3 {
				o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: uint64(0xb1 + id), Name: "stranger"}) // #nosec G115 -- 0 to 2
			}
		}, ""),
		Entry("when its loss would leave fewer than the quorum", func() {
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 0xb1, Name: "stranger"})
		}, "more healthy members"),
		Entry("while the members are of two clusters", func() { o.Etcd.Members[2].ClusterID = 2 }, "main-2 of cluster 2"),
	)

	It("does not wait for the heartbeat of a member that has run for long, which may be about a later configuration", func() {
		o.Pods[1].RevisionHash = "old"
		o.MemberLeases = []etcdcluster.Lease{{Name: "main-2", TLSEnabled: new(true)}}
		Expect(p().Step).To(HaveField("Object", "main-1"), p().WaitsFor)
	})

	DescribeTable("replaces the pod of a healthy member although others of an older template",
		func(change func()) {
			o.Pods[0].RevisionHash, o.Pods[1].RevisionHash, o.Pods[2].RevisionHash = "old", "old", "old"
			change()
			Expect(p().Step).To(Equal(plan.EvictPod{Meta: plan.Meta{Object: "main-1", UID: "uid-of-main-1"}}), p().WaitsFor)
			o.Pods[2].CreationTime = now.Add(-time.Minute)
			Expect(p().Step).To(BeNil(), "its sidecar may be about to register its peer URLs, and to stop etcd for that")
		},
		Entry("do not advertise a new port", func() { etcd.Spec.Etcd.ServerPort = new(int32(2381)) }),
		Entry("do not advertise new additional peer URLs", func() {
			etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: "main-2", URLs: []string{"http://198.51.100.7:2380"}}}
		}),
		Entry("say by their heartbeat what the configuration of now says", func() {
			o.MemberLeases = []etcdcluster.Lease{{Name: "main-2", TLSEnabled: new(true)}}
		}),
	)

	It("registers the own peer URLs of a member if its sidecar did not, before it replaces another", func() {
		o.Pods[1].RevisionHash = "old"
		o.Etcd.MemberList[2].PeerURLs = []string{"https://main-2.main-peer.demo.svc:2380"}
		Expect(p().Step).To(Equal(plan.UpdatePeerURLs{Meta: plan.Meta{Object: "main-2", UID: "uid-of-main-2"}, Member: 0xa3, URLs: []string{"http://main-2.main-peer.demo.svc:2380"}}))
	})

	It("replaces a member that has other URLs than before when it is replaced", func() {
		o.Pods[1].RevisionHash, o.Pods[2].RevisionHash = "old", "old"
		etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{
			{MemberName: "main-1", URLs: []string{"http://one.example:2380"}}, {MemberName: "main-2", URLs: []string{"http://two.example:2380"}},
		}
		Expect(p().Step).To(Equal(plan.EvictPod{Meta: plan.Meta{Object: "main-1", UID: "uid-of-main-1"}}), p().WaitsFor)
	})

	Describe("that lose their certificates for each other", func() {
		BeforeEach(func() {
			for ordinal := range 3 {
				o.Pods[ordinal].PeerTLS, o.Pods[ordinal].RevisionHash = true, "old"
				o.Etcd.MemberList[ordinal].PeerURLs = []string{fmt.Sprintf("https://main-%d.main-peer.demo.svc:2380", ordinal)}
			}
		})
		plainly := func(ordinal int) {
			o.Etcd.MemberList[ordinal].PeerURLs = []string{fmt.Sprintf("http://main-%d.main-peer.demo.svc:2380", ordinal)}
		}

		It("are known without before they restart, one after the other", func() {
			Expect(p().Step).To(Equal(plan.UpdatePeerURLs{Meta: plan.Meta{Object: "main-1", UID: "uid-of-main-1"}, Member: 0xa2, URLs: []string{"http://main-1.main-peer.demo.svc:2380"}}))
			plainly(1)
			Expect(p().Step).To(Equal(plan.EvictPod{Meta: plan.Meta{Object: "main-1", UID: "uid-of-main-1"}}))
			o.Pods[1].PeerTLS, o.Pods[1].RevisionHash = false, "new"
			Expect(p().Step).To(HaveField("Object", "main-2"))
		})

		It("are replaced before another is registered without, in any order and also as the leader", func() {
			plainly(2)
			Expect(p().Step).To(Equal(plan.EvictPod{Meta: plan.Meta{Object: "main-2", UID: "uid-of-main-2"}}))
			o.Etcd.MemberList[2].PeerURLs = []string{"https://main-2.main-peer.demo.svc:2380"}
			plainly(0)
			Expect(p().Step).To(And(BeAssignableToTypeOf(plan.MoveLeader{}), HaveField("Object", "main-0")))
		})

		It("are replaced although their heartbeat already has the new URLs", func() {
			plainly(2)
			o.MemberLeases = []etcdcluster.Lease{{Name: "main-2", TLSEnabled: new(false)}}
			Expect(p().Step).NotTo(BeNil(), p().WaitsFor)
		})

		It("are registered without TLS before they are deleted, if they are not healthy", func() {
			unreachable(1)
			Expect(p().Step).To(Equal(plan.UpdatePeerURLs{Meta: plan.Meta{Object: "main-1", UID: "uid-of-main-1"}, Member: 0xa2, URLs: []string{"http://main-1.main-peer.demo.svc:2380"}}))
			plainly(1)
			Expect(p().Step).To(BeAssignableToTypeOf(plan.DeletePod{}))
		})

		It("are known without before they are deleted, where they have joined and never run", func() {
			o.Pods = append(o.Pods, o.Pods[2])
			o.Pods[3].Name, o.Pods[3].Ordinal, o.Pods[3].UID = "main-3", 3, "uid-of-main-3"
			o.Pods[3].Ready, o.Pods[3].ContainersReady = false, false
			o.Pods[3].Containers = []etcdcluster.Container{{Name: "etcd", State: "Waiting"}}
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: 3})
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 0xa4, Learner: true, PeerURLs: []string{"https://main-3.main-peer.demo.svc:2380"}})
			etcd.Spec.Replicas, o.State.Size, o.State.Replicas = 5, 5, new(int32(4))
			Expect(p().Step).To(Equal(plan.UpdatePeerURLs{Meta: plan.Meta{Object: "main-3", UID: "uid-of-main-3"}, Member: 0xa4, URLs: []string{"http://main-3.main-peer.demo.svc:2380"}}))
			plainly(3)
			Expect(p().Step).To(BeAssignableToTypeOf(plan.DeletePod{}))
		})

		It("are found where others know them still by https", func() {
			unreachable(1)
			o.Pods[1].PeerTLS, o.Pods[1].RevisionHash, o.Pods[1].CreationTime = false, "new", now.Add(-time.Minute+time.Second)
			Expect(p().Step).To(BeNil(), "it may just be starting")
			o.Pods[1].CreationTime = now.Add(-time.Minute)
			Expect(p().Step).To(Equal(plan.UpdatePeerURLs{Meta: plan.Meta{Object: "main-1", UID: "uid-of-main-1"}, Member: 0xa2, URLs: []string{"http://main-1.main-peer.demo.svc:2380"}}))
			o.Pods[1].Containers[0].State = "Waiting"
			Expect(p().Step).To(BeNil(), "there is no other member to connect to")
		})

		DescribeTable("are known without only after their sidecars",
			func(change func(), waitsFor string) {
				o.Pods[1].CreationTime, o.Pods[1].ReadyChangedAt = now.Add(-time.Hour), now.Add(-time.Second)
				o.Pods[1].Containers = append(o.Pods[1].Containers, etcdcluster.Container{Name: "backup-restore", State: "Running", StartedAt: now.Add(-time.Minute)})
				change()
				Expect(p().WaitsFor).To(Equal(waitsFor))
				Expect(p().Step == nil).To(Equal(waitsFor != ""), p().Reason)
			},
			Entry("have registered their peer URLs, which no Lease records", func() {}, "the heartbeat of member main-1"),
			Entry("have, while the Lease is that of the previous pod", func() {
				o.MemberLeases = []etcdcluster.Lease{{Name: "main-1", RenewTime: now.Add(-time.Minute)}}
			}, "the heartbeat of member main-1"),
			Entry("have written the lease", func() { o.MemberLeases = []etcdcluster.Lease{{Name: "main-1", RenewTime: now.Add(-time.Second)}} }, ""),
			Entry("have had the time to, as one that writes no leases", func() { o.Pods[1].ReadyChangedAt = now.Add(-time.Minute) }, ""),
		)

		It("are registered with https again when they keep them after all", func() {
			plainly(1)
			o.StatefulSet.UpdateRevision = "old"
			Expect(p().Step).To(HaveField("URLs", []string{"https://main-1.main-peer.demo.svc:2380"}))
		})
	})

	Describe("BoundPeers", func() {
		bound := func() *bool { return peers.PinnedTLS(etcd, o, now) }
		registeredWith := func(tls ...bool) {
			o.MemberLeases = nil
			for ordinal, enabled := range tls {
				o.MemberLeases = append(o.MemberLeases, etcdcluster.Lease{Name: fmt.Sprintf("main-%d", ordinal), TLSEnabled: new(enabled)})
			}
		}
		BeforeEach(func() { registeredWith(true, true, true) })

		DescribeTable("lets members change whose peer URLs can be registered",
			func(change func()) {
				change()
				Expect(bound()).To(BeNil())
			},
			Entry("while all serve", func() {}),
			Entry("while a quorum does", func() { o.Pods[0].Ready = false }),
			Entry("while a quorum does, and the third has not become ready for two minutes", func() { o.Pods[0].Ready, o.Pods[0].CreationTime = false, now.Add(-2*time.Minute) }),
			Entry("while a quorum does, and the third has not become ready for a minute since its heartbeat", func() {
				o.Pods[0].Ready, o.Pods[0].CreationTime, o.MemberLeases[0].RenewTime = false, now.Add(-time.Minute), now
			}),
			Entry("when the sidecar of one that has just become ready has renewed its lease", func() { o.Pods[0].ReadyChangedAt, o.MemberLeases[0].RenewTime = now, now }),
			Entry("while a quorum does, and the third goes", func() { o.Pods[0].Ready, o.Pods[0].CreationTime, o.Pods[0].Deleting = false, now, true }),
			Entry("of which there never were several", func() { o.State.Size, o.State.Replicas, o.Pods = 1, new(int32(1)), nil }),
			Entry("that are managed externally", func() {
				etcd.Spec.ExternallyManagedMemberAddresses, o.Pods = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil
			}),
			Entry("of which no Lease records the registered peer URLs", func() { o.MemberLeases, o.Pods = nil, nil }),
			Entry("of which the first was restarted without, and is scaled up before its heartbeat", func() {
				o.State.Replicas, o.Pods = new(int32(2)), o.Pods[:1]
				registeredWith(true)
			}),
		)

		DescribeTable("binds others to how they know each other",
			func(change func()) {
				change()
				Expect(bound()).To(HaveValue(BeTrue()))
				registeredWith(false, false, false)
				Expect(bound()).To(HaveValue(BeFalse()))
				registeredWith(true, false, true)
				Expect(bound()).To(HaveValue(BeTrue()))
				registeredWith(true, false, false)
				Expect(bound()).To(HaveValue(BeFalse()))
			},
			Entry("while too few serve", func() { o.Pods[0].Ready, o.Pods[1].Ready, o.Etcd.Members = false, false, nil }),
			Entry("while a quorum is being deleted", func() { o.Pods[0].Deleting, o.Pods[1].Deleting = true, true }),
			Entry("while they hibernate, or are about to", func() { etcd.Spec.Replicas = 0 }),
			Entry("when they wake up", func() { o.Pods, o.State.Replicas = nil, new(int32(0)) }),
		)

		DescribeTable("stays with what was rendered while the sidecar of a member may read other peer URLs than those of its pod, and stop etcd",
			func(change func()) {
				change()
				Expect(bound()).To(HaveValue(BeFalse()))
				o.StatefulSet.TLS.PeerCA = "peer-ca"
				Expect(bound()).To(HaveValue(BeTrue()))
				etcd.Spec.Etcd.ServerPort, o.StatefulSet.PeerPort = new(int32(2381)), 2380
				Expect(peers.PinnedPort(etcd, o, now)).To(BeEquivalentTo(2380))
			},
			Entry("since it starts next to a quorum", func() {
				o.Pods[0].Ready, o.Pods[0].CreationTime, o.MemberLeases[0].RenewTime = false, now.Add(-time.Minute+time.Second), now
			}),
			Entry("since it starts next to a quorum, and has not renewed its lease", func() { o.Pods[0].Ready, o.Pods[0].CreationTime = false, now.Add(-2*time.Minute+time.Second) }),
			Entry("since it became ready a moment ago, and has not renewed its lease", func() { o.Pods[0].ReadyChangedAt = now.Add(-time.Minute + time.Second) }),
			Entry("since it has not renewed its lease after its container started", func() {
				o.Pods[0].ReadyChangedAt, o.MemberLeases[0].RenewTime = now, now.Add(-time.Second)
				o.Pods[0].Containers = append(o.Pods[0].Containers, etcdcluster.Container{Name: "backup-restore", StartedAt: now})
			}),
		)

		It("keeps the rendered mode if as many members are registered with one as with the other", func() {
			o.Pods[0].Ready, o.Pods[1].Ready = false, false
			registeredWith(false, true)
			o.StatefulSet.TLS.PeerCA = "peer-ca"
			Expect(bound()).To(HaveValue(BeTrue()))
			o.StatefulSet.TLS.PeerCA = ""
			Expect(bound()).To(HaveValue(BeFalse()))
		})

		Describe("where they do not find together", func() {
			BeforeEach(func() {
				registeredWith(true, false, false)
				for ordinal := range 3 {
					unreachable(ordinal)
					o.Pods[ordinal].ContainersReady = false
					o.Pods[ordinal].CreationTime, o.Pods[ordinal].ReadyChangedAt = now.Add(-time.Hour), now.Add(-2*time.Minute)
				}
			})
			become := func(tls bool, ordinals ...int) {
				for _, ordinal := range ordinals {
					o.Pods[ordinal].PeerTLS = tls
					o.Pods[ordinal].CreationTime, o.Pods[ordinal].ReadyChangedAt = now, now
				}
			}

			It("has them try the other way, for as long as it takes", func() {
				Expect(bound()).To(HaveValue(BeTrue()))
				o.StatefulSet.TLS.PeerCA = "peer-ca"
				Expect(bound()).To(HaveValue(BeTrue()), "none is replaced yet")
				o.Pods[0].Deleting = true
				Expect(bound()).To(HaveValue(BeTrue()), "the first is being deleted")
				become(true, 0, 1)
				Expect(bound()).To(HaveValue(BeTrue()), "two are replaced")
				o.Pods[2].Containers[0].State = "Waiting"
				Expect(bound()).To(HaveValue(BeTrue()), "the third does not run anyway")
				become(true, 2)
				Expect(bound()).To(HaveValue(BeTrue()), "all start")
				Expect(peers.PinnedTLS(etcd, o, now.Add(2*time.Minute-time.Second))).To(HaveValue(BeTrue()))
				Expect(peers.PinnedTLS(etcd, o, now.Add(2*time.Minute))).To(HaveValue(BeFalse()), "and then the first again")
			})

			// rendered is the mode that each of multiple reconciliations renders.
			rendered := func() []bool {
				var modes []bool
				for range 5 {
					mode := *bound()
					modes = append(modes, mode)
					o.StatefulSet.TLS.PeerCA = map[bool]string{true: "peer-ca"}[mode]
				}
				return modes
			}
			DescribeTable("has them try no other way while etcd is healthy, although too few pods are ready",
				func(change func()) {
					change()
					Expect(rendered()).To(HaveEach(BeFalse()))
				},
				Entry("since their sidecars do not start", func() { o.Pods[2].Ready, o.Pods[2].ContainersReady = true, true }),
				Entry("since the sidecars of all three do not start", func() {
					for i := range o.Pods {
						o.Pods[i].Containers[0].Ready = true
					}
				}),
				Entry("in a pod that is being deleted", func() { o.Pods[2].Ready, o.Pods[2].ContainersReady, o.Pods[2].Deleting = true, true, true }),
			)

			It("has them try no other way while the third has just started in this one", func() {
				o.Pods[2].ReadyChangedAt = now
				Expect(rendered()).To(HaveEach(BeFalse()))
				now = now.Add(2 * time.Minute)
				Expect(rendered()).To(HaveEach(BeTrue()))
			})

			It("does not count a member that was healthy before its node became unreachable", func() {
				o.Pods[2].ContainersReady, o.Pods[2].Containers[0].Ready = true, true
				Expect(rendered()).To(HaveEach(BeTrue()))
			})

			DescribeTable("leaves them as most know each other",
				func(change func()) {
					change()
					Expect(bound()).To(HaveValue(BeFalse()))
				},
				Entry("before enough of them had the time to", func() {
					o.Pods[1].ReadyChangedAt, o.Pods[2].ReadyChangedAt = now.Add(-2*time.Minute+time.Second), now
				}),
				Entry("while too few run", func() { o.Pods[1].Containers[0].State, o.Pods[2].Containers[0].State = "Waiting", "Waiting" }),
				Entry("while too few are there", func() { o.Pods = o.Pods[:1] }),
				Entry("while the nodes of too many are cut off", func() { o.Pods[1].ContainersReady, o.Pods[2].ContainersReady = true, true }),
				Entry("where all leases say the same", func() { registeredWith(false, false, false) }),
				Entry("where one that has certificates became unhealthy a moment ago", func() {
					o.StatefulSet.TLS.PeerCA = "peer-ca"
					become(true, 0)
					o.Pods[1].ReadyChangedAt = now
				}),
			)
		})

		It("does not listen to a member that has lost its volume", func() {
			o.Pods[0].Ready, o.Pods[1].Ready = false, false
			registeredWith(true, false, false)
			o.StatefulSet.TLS.PeerCA = "peer-ca"
			o.Claims = []etcdcluster.Claim{{Ordinal: 1}}
			Expect(bound()).To(HaveValue(BeTrue()))
		})
	})

	It("returns the voting members without a Lease holder", func() {
		o.MemberLeases = []etcdcluster.Lease{{Name: "main-0", Holder: "a1:Leader"}, {Name: "main-1"}, {Name: "main-2"}}
		voters := func() []etcdcluster.Member { return planner.VotersWithoutLeaseHolder(etcd, o) }
		Expect(voters()).To(HaveExactElements(HaveField("Listed.ID", BeEquivalentTo(0xa2)), HaveField("Listed.ID", BeEquivalentTo(0xa3))))
		o.Etcd.MemberList[1].Learner = true
		Expect(voters()).To(HaveExactElements(HaveField("Name", "main-2")))
		o.MemberLeases = o.MemberLeases[:2]
		Expect(voters()).To(BeEmpty(), "there is no lease to write into")
		o.Etcd.MemberList[1].Learner, o.Pods = false, o.Pods[:1]
		Expect(voters()).To(BeEmpty(), "it has no pod")
	})

	DescribeTable("has members hibernate",
		func(change func(), waitsFor string) {
			etcd.Spec.Replicas = 0
			o.MemberLeases = []etcdcluster.Lease{{Name: "main-0", Holder: "a1:Leader"}, {Name: "main-1", Holder: "a2:Member"}, {Name: "main-2"}}
			o.Pods[2].CreationTime = now.Add(-2*time.Minute + time.Second)
			change()
			Expect(p().WaitsFor).To(Equal(waitsFor))
			Expect(p().Render).To(Equal(waitsFor != "the first heartbeat of member main-2"))
			Expect(p().PollMembers).NotTo(Equal(p().Render), "no watch reports heartbeats")
		},
		Entry("when their Leases have a holder", func() {}, "the first heartbeat of member main-2"),
		Entry("when they do", func() { o.MemberLeases[2].Holder = "a3:Member" }, "pod main-0 to be gone"),
		Entry("although one does not come to it in two minutes", func() { o.Pods[2].CreationTime = now.Add(-2 * time.Minute) }, "pod main-0 to be gone"),
		Entry("when they do that of one whose sidecar has just stopped it", func() { o.Pods[2].Containers[0].State = "Terminated" }, "the first heartbeat of member main-2"),
		Entry("although one never started", func() { o.Pods[2].Containers[0].State = "Waiting" }, "pod main-0 to be gone"),
		Entry("although one is being deleted", func() { o.Pods[2].Deleting = true }, "pod main-0 to be gone"),
		Entry("whatever the Leases record, once they are stopped", func() { o.State.Replicas = new(int32(0)) }, "pod main-0 to be gone"),
	)

	DescribeTable("keeps the port between members that was rendered",
		func(change func(), bound int) {
			o.StatefulSet.PeerPort = 2380
			etcd.Spec.Etcd.ServerPort = new(int32(2381))
			change()
			Expect(peers.PinnedPort(etcd, o, now)).To(BeEquivalentTo(bound))
			effective := peers.WithPinnedPort(etcd, o, now).Spec.Etcd.ServerPort
			Expect(effective).To(HaveValue(BeEquivalentTo(cmp.Or(bound, 2381))))
			Expect(etcd.Spec.Etcd.ServerPort).To(HaveValue(BeEquivalentTo(2381)), "the Etcd itself stays as it is")
		},
		Entry("but not while a quorum is healthy", func() { o.Pods[0].Ready = false }, 0),
		Entry("while they have no quorum", func() { o.Pods[0].Ready, o.Pods[1].Ready = false, false }, 2380),
		Entry("while they start at it", func() {
			for ordinal := range 3 {
				unreachable(ordinal)
				o.Pods[ordinal].PeerPort, o.Pods[ordinal].CreationTime = 2380, now.Add(-2*time.Minute+time.Second)
			}
		}, 2380),
		Entry("but not where a quorum of them runs at it and does not find together", func() {
			for ordinal := range 3 {
				unreachable(ordinal)
				o.Pods[ordinal].PeerPort, o.Pods[ordinal].CreationTime = 2380, now.Add(-2*time.Minute)
			}
			o.Pods[0].PeerPort = 2381
		}, 0),
		Entry("where those that do not find together run at another", func() {
			for ordinal := range 3 {
				unreachable(ordinal)
				o.Pods[ordinal].PeerPort = 2381
			}
		}, 2380),
		Entry("while they hibernate, or are about to", func() { etcd.Spec.Replicas = 0 }, 2380),
		Entry("but not of a single member, which has no peers", func() { o.State.Size, etcd.Spec.Replicas, o.Pods = 1, 1, nil }, 0),
		Entry("but not if the pods are managed externally", func() {
			etcd.Spec.ExternallyManagedMemberAddresses, o.Pods = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil
		}, 0),
		Entry("but not if it is unknown", func() { o.StatefulSet.PeerPort, o.Pods = 0, nil }, 0),
	)

	It("does not wait for a member of an older template to advertise the port of the spec", func() {
		etcd.Spec.Etcd.ServerPort = new(int32(2381))
		for ordinal := range o.Pods {
			o.Pods[ordinal].RevisionHash, o.Pods[ordinal].PeerPort, o.Pods[ordinal].CreationTime = "old", 2380, now
		}
		Expect(p().Step).To(BeAssignableToTypeOf(plan.EvictPod{}), p().WaitsFor)
	})

	It("replaces no member while the sidecar of another one may read newer peer URLs than those of its pod, and stop etcd", func() {
		o.StatefulSet.PeerPort = 2381
		for ordinal := range o.Pods {
			o.Pods[ordinal].RevisionHash, o.Pods[ordinal].PeerPort = "old", 2380
		}
		Expect(p().Step).To(BeAssignableToTypeOf(plan.EvictPod{}), p().WaitsFor)
		o.Pods[2].ReadyChangedAt = now.Add(-time.Minute + time.Second)
		Expect(p()).To(And(HaveField("Step", BeNil()), HaveField("WaitsFor", "the heartbeat of member main-2")))
		o.MemberLeases = []etcdcluster.Lease{{Name: "main-2", RenewTime: now}}
		Expect(p().Step).To(BeAssignableToTypeOf(plan.EvictPod{}), p().WaitsFor)
	})

	It("renders nothing while the spec requests other peer URLs, and the sidecar of a member has not registered the current ones", func() {
		o.PeerChangePending = true
		Expect(p().Render).To(BeTrue())
		o.Pods[2].ReadyChangedAt = now.Add(-time.Minute + time.Second)
		Expect(p()).To(And(HaveField("Render", false), HaveField("WaitsFor", "the heartbeat of member main-2")))
		o.Pods[2].Ready, o.Pods[2].CreationTime, o.Pods[2].Containers[0].State = false, now, "Waiting"
		Expect(p().Render).To(BeTrue(), "a pod that is recreated repeatedly and never starts delays nothing")
	})

	It("names both clusters where members are of two", func() {
		o.Etcd.Members[2].ClusterID = 2
		Expect(string(p().Stage)).To(Equal("Halted"))
		Expect(p().WaitsFor).To(Equal("one cluster ID for all members: main-0 and main-1 of cluster 1, main-2 of cluster 2"))
	})

	DescribeTable("replaces the outdated pod of an unhealthy member",
		func(change func(), replaced bool) {
			o.Pods[2].RevisionHash = "old"
			unreachable(2)
			change()
			Expect(p().Step != nil).To(Equal(replaced), p().Reason)
		},
		Entry("by deleting it", func() {}, true),
		Entry("also while an EtcdOpsTask defragments members", func() { o.Defragmentation = "shrink" }, true),
		Entry("but not one of which only the API server says so: its node is cut off", func() { o.Pods[2].ContainersReady = true }, false),
		Entry("but not if a member is healthy, which needs more than are reachable", func() { unreachable(1) }, false),
	)

	Describe("if no member is healthy", func() {
		BeforeEach(func() {
			for ordinal := range 3 {
				unreachable(ordinal)
				o.Pods[ordinal].ReadyChangedAt = now.Add(-2 * time.Minute)
			}
			unlisted()
		})

		It("replaces each outdated pod without waiting for the one before", func() {
			o.Pods[0].RevisionHash, o.Pods[1].RevisionHash = "old", "old"
			Expect(p().Step).To(And(BeAssignableToTypeOf(plan.DeletePod{}), HaveField("Object", "main-0")))
			o.Pods[0].Deleting = true
			Expect(p().Step).To(HaveField("Object", "main-1"))
		})

		It("keeps a pod that became unready a moment ago: no member is healthy during an election either", func() {
			o.Pods[0].RevisionHash, o.Pods[0].ReadyChangedAt = "old", now.Add(-30*time.Second)
			Expect(p().Step).To(BeNil())
			o.Pods[0].Containers[0].State = "Waiting"
			Expect(p().Step).NotTo(BeNil(), "it does not even run")
		})

		It("reports that the quorum is lost", func() {
			Expect(string(p().Stage)).To(Equal("QuorumLost"))
			Expect(p().Reason).To(Equal("0 of 3 healthy, fewer than the quorum of 2; the operator changes nothing"))
		})

		It("replaces no claim", func() {
			o.Claims[2].Lost = true
			Expect(p().Step).To(BeNil())
		})

		It("reports what is left when the quorum cannot recover", func() {
			o.Claims[1].Lost = true
			o.Nodes = []etcdcluster.Node{{Name: "n2"}}
			Expect(p().Reason).To(ContainSubstring("cannot recover: the volume of claim main-main-1 does not exist any more; the volume of claim main-main-2 can be used on node n2 alone"))
			Expect(p().WaitsFor).To(Equal("a manual recovery (data of main-0 is left), or a manual recovery; there is no store to restore from"))
		})

		DescribeTable("decides from the recorded voting members whether the quorum of three can recover",
			func(size int, voters []string, lost, joined []int, mayRecover bool) {
				etcd.Spec.Replicas, o.State.Size, o.State.Replicas, o.StatefulSet.SpecReplicas = int32(size), int32(size), new(int32(3)), 3
				if voters != nil {
					o.State.Evidence = &state.Evidence{}
				}
				for _, name := range voters {
					o.State.Evidence.Voters = append(o.State.Evidence.Voters, state.Voter{Name: name, ID: "1"})
				}
				for _, ordinal := range joined {
					o.MemberLeases = append(o.MemberLeases, etcdcluster.Lease{Exists: true, Name: fmt.Sprintf("main-%d", ordinal), Holder: fmt.Sprintf("a%d:Member", ordinal)})
				}
				for _, ordinal := range lost {
					o.Claims[ordinal].Lost = true
				}
				Expect(p().Stage).To(BeEquivalentTo("QuorumLost"))
				Expect(p().Step).NotTo(BeAssignableToTypeOf(plan.ReplaceClaim{}), "no claim is replaced without a quorum")
				if mayRecover {
					Expect(p().Reason).NotTo(ContainSubstring("cannot recover"))
				} else {
					Expect(p().Reason).To(ContainSubstring("cannot recover"))
				}
			},
			Entry("during a scale-up to five: without a record it may recover", 5, nil, []int{0, 1}, []int{0, 1, 2}, true),
			Entry("during a scale-up to five: the only voting member is lost, and a learner has no quorum alone", 5, []string{"main-0"}, []int{0}, []int{0, 1}, false),
			Entry("during a scale-up to five: the only recorded voting member is lost, and two members have joined since", 5, []string{"main-0"}, []int{0}, []int{0, 1, 2}, true),
			Entry("during a scale-up to five: one of two voting members is lost, and a third may have been promoted since", 5, []string{"main-0", "main-1"}, []int{0}, []int{0, 1, 2}, true),
			Entry("during a scale-up to five: one of two voting members is lost, and the third never sent a heartbeat", 5, []string{"main-0", "main-1"}, []int{0}, []int{0, 1}, false),
			Entry("during a scale-up to five: one of two voting members is lost, and the volume of the third too", 5, []string{"main-0", "main-1"}, []int{0, 2}, []int{0, 1, 2}, false),
			Entry("during a scale-up to five: both voting members are lost", 5, []string{"main-0", "main-1"}, []int{0, 1}, []int{0, 1, 2}, false),
			Entry("during a scale-up to five: one of three voting members is lost", 5, []string{"main-0", "main-1", "main-2"}, []int{0}, []int{0, 1, 2}, true),
			Entry("during a scale-up to five: two of three voting members are lost", 5, []string{"main-0", "main-1", "main-2"}, []int{0, 1}, []int{0, 1, 2}, false),
			Entry("during a scale-up to five: one voting member is lost, and three belong to the cluster that it joined", 5, []string{"old-0", "old-1", "old-2", "main-0"}, []int{0}, []int{0}, true),
			Entry("during a scale-up to five: one of three voting members is lost, and one had not published its name", 5, []string{"main-0", "main-1", ""}, []int{0}, []int{0, 1}, true),
			Entry("the last member has not joined, and a voting member is lost", 3, []string{"main-0", "main-1"}, []int{1}, []int{0, 1}, false),
			Entry("the last member joined after the record, and a voting member is lost", 3, []string{"main-0", "main-1"}, []int{1}, []int{0, 1, 2}, true),
			Entry("two joined after the record, and are lost: if they never voted, the third is a quorum", 3, []string{"main-0"}, []int{1, 2}, []int{0, 1, 2}, true),
			Entry("two of three are lost, and the three voting members of the cluster that they joined are a quorum with the third", 3,
				[]string{"old-0", "old-1", "old-2", "main-0", "main-1", "main-2"}, []int{1, 2}, []int{0, 1, 2}, true),
			Entry("one of three is lost", 3, []string{"main-0", "main-1", "main-2"}, []int{1}, []int{0, 1, 2}, true),
			Entry("one of three is lost, without a record", 3, nil, []int{1}, []int{0, 1, 2}, true),
			Entry("two of three are lost, without a record", 3, nil, []int{1, 2}, []int{0, 1, 2}, false),
		)
	})

	DescribeTable("replaces the claim of an unhealthy member",
		func(change func(), replaced bool) {
			unreachable(2)
			change()
			_, isReplaced := p().Step.(plan.ReplaceClaim)
			Expect(isReplaced).To(Equal(replaced), p().Reason)
			if replaced {
				Expect(p().Step).To(And(HaveField("Object", "main-main-2"), HaveField("UID", BeEquivalentTo("claim-main-2"))))
			}
		},
		Entry("when its volume is gone", func() { o.Claims[2].Lost = true }, true),
		Entry("when the node of its volume is gone", func() { o.Nodes = []etcdcluster.Node{{Name: "n2"}} }, true),
		Entry("when the node of its volume is out of service", func() { o.Nodes = []etcdcluster.Node{{Name: "n2", Exists: true, OutOfService: true}} }, true),
		Entry("when its node is gone, so that no kubelet reports that its pod is not ready", func() {
			o.Nodes = []etcdcluster.Node{{Name: "n2"}}
			o.Pods[2].Ready, o.Pods[2].ContainersReady = true, true
		}, true),
		Entry("but not when its pod is ready on a node that exists", func() {
			o.Claims[2].Lost, o.Pods[2].Ready = true, true
			o.Nodes = []etcdcluster.Node{{Name: "n2", Exists: true}}
		}, false),
		Entry("but not while the node exists", func() { o.Nodes = []etcdcluster.Node{{Name: "n2", Exists: true}} }, false),
		Entry("but not when the node was not observed", func() {}, false),
		Entry("but not while one of two nodes of the volume exists", func() {
			o.Claims[2].Nodes = []string{"n2", "n3"}
			o.Nodes = []etcdcluster.Node{{Name: "n2"}, {Name: "n3", Exists: true}}
		}, false),
		Entry("but not without a quorum read", func() { o.Claims[2].Lost = true; unlisted() }, false),
		Entry("but not when claims could not be read", func() {
			o.Claims[2].Lost = true
			o.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionClaims, Message: "timeout"}}
		}, false),
		Entry("but not of a healthy one", func() {
			o.Claims[1].Lost = true
		}, false),
	)

	Describe("with a learner", func() {
		BeforeEach(func() {
			for i := range o.Etcd.Members {
				o.Etcd.Members[i].RaftIndex, o.Etcd.Members[i].RaftAppliedIndex = 1000, 1000
			}
			o.Etcd.Members[2].Learner, o.Etcd.Members[2].Healthy, o.Etcd.MemberList[2].Learner = true, false, true
			o.Pods[2].Ready, o.Pods[2].ContainersReady = false, false
		})

		It("promotes it", func() {
			Expect(p().Step).To(Equal(plan.PromoteMember{Meta: plan.Meta{Object: "main-2", UID: "uid-of-main-2"}, Member: 0xa3}))
			Expect(p().Reason).To(Equal("2 of 2 healthy; main-2 has caught up, and its promotion results in 3 of 3 healthy: allowed"))
		})

		DescribeTable("waits",
			func(change func()) {
				change()
				Expect(p().Step).To(BeNil(), p().Reason)
				Expect(p().Outcome()).To(Equal(plan.OutcomeWaiting))
			},
			Entry("while it is behind", func() { o.Etcd.Members[2].RaftAppliedIndex = 899 }),
			Entry("while it has nothing", func() {
				for i := range o.Etcd.Members {
					o.Etcd.Members[i].RaftIndex, o.Etcd.Members[i].RaftAppliedIndex = 5, 0
				}
			}),
			Entry("while a voting member is not healthy", func() { unreachable(1) }),
			Entry("while it does not answer", func() { unreachable(2) }),
			Entry("while its pod goes", func() { o.Pods[2].Deleting = true }),
			Entry("while there is no leader", func() {
				for i := range o.Etcd.Members {
					o.Etcd.Members[i].LeaderID = 0
				}
			}),
			Entry("without a list of members", unlisted),
			Entry("while the list knows it by another id", func() { o.Etcd.MemberList[2].ID = 0xff }),
		)
	})

	It("asks more often while a pod is young", func() {
		Expect(p().PollMembers).To(BeFalse())
		o.Pods[1].CreationTime = now.Add(-time.Minute)
		Expect(p().PollMembers).To(BeTrue())
	})

	Describe("that is scaled up", func() {
		BeforeEach(func() { etcd.Spec.Replicas = 5 })

		It("does not wait for the pod of a healthy member to be ready, if another one is", func() {
			o.Pods[1].Ready, o.Pods[2].Ready = false, false
			Expect(p().ScaleUp).NotTo(BeNil())
			o.Pods[0].Ready = false
			Expect(p().ScaleUp).To(BeNil(), "a member that joins would find no other")
		})

		It("lets one member join, and records the final size", func() {
			Expect(p().ScaleUp).To(Equal(&plan.Size{Replicas: 4, ClusterSize: 5}))
			Expect(p().ScaledUp()).To(And(HaveField("Replicas", int32(4)), HaveField("ClusterSize", int32(5)), HaveField("ScaleUp", BeNil())))
			Expect(p().Replicas).To(BeEquivalentTo(3), "until the cluster shows what was rendered for three")
		})

		DescribeTable("waits",
			func(change func()) {
				change()
				Expect(p().ScaleUp).To(BeNil())
				Expect(p().Replicas).To(BeEquivalentTo(3))
			},
			Entry("while a member is not healthy", func() { unreachable(2) }),
			Entry("while there is a learner of another cluster member", func() {
				o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 0xb1, Name: "stranger", Learner: true})
			}),
			Entry("without a list of members", unlisted),
			Entry("while a pod is outdated", func() { o.Pods[1].RevisionHash = "old" }),
		)

		It("does not wait for a learner that is the next member", func() {
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 0xb1, Name: "main-3", Learner: true})
			Expect(p().ScaleUp).NotTo(BeNil())
		})

		It("does not scale down to what a user scaled the StatefulSet to", func() {
			o.StatefulSet.SpecReplicas = 1
			Expect(p().Replicas).To(BeEquivalentTo(3))
		})
	})

	DescribeTable("starts a cluster of which nothing runs",
		func(change func(), stage string, replicas, size int) {
			o = etcdcluster.Observation{}
			change()
			Expect(string(p().Stage)).To(Equal(stage))
			Expect([]int32{p().Replicas, p().ClusterSize}).To(Equal([]int32{int32(replicas), int32(size)})) // #nosec G115 -- 0 to 3
		},
		Entry("from nothing with one member", func() {}, "Create", 1, 1),
		Entry("on the data of all members, by their leases", func() {
			o.State.Size = 3
			o.Claims = []etcdcluster.Claim{{Ordinal: 0, Exists: true}, {Ordinal: 1}, {Ordinal: 2, Exists: true}}
			o.MemberLeases = []etcdcluster.Lease{{Name: "main-0", Holder: "a1:1:Leader"}, {Name: "main-1", Holder: "a2:1:Member"}, {Name: "main-2", Holder: "a3:1:Member"}}
		}, "WakeUp", 3, 3),
		Entry("on claims, if no Lease has a holder", func() {
			o.Claims = []etcdcluster.Claim{{Ordinal: 0, Exists: true}, {Ordinal: 1, Exists: true}, {Ordinal: 2, Exists: true}}
		}, "WakeUp", 3, 3),
		Entry("on claims, if no Lease has a holder and the first claim is lost", func() {
			o.Claims = []etcdcluster.Claim{{Ordinal: 0}, {Ordinal: 1, Exists: true}, {Ordinal: 2, Exists: true}}
		}, "WakeUp", 3, 3),
		Entry("on claims, if no Lease has a holder and one in the middle is lost", func() {
			o.Claims = []etcdcluster.Claim{{Ordinal: 0, Exists: true}, {Ordinal: 1}, {Ordinal: 2, Exists: true}}
		}, "WakeUp", 3, 3),
		Entry("not if no Lease has a holder, and those without data could form another cluster", func() {
			o.Claims = []etcdcluster.Claim{{Ordinal: 0}, {Ordinal: 1}, {Ordinal: 2, Exists: true}}
		}, "QuorumLost", 0, 0),
		Entry("not if no Lease has a holder, and the volume of the first exists no more", func() {
			o.Claims = []etcdcluster.Claim{{Ordinal: 0, Exists: true, Lost: true}, {Ordinal: 1}, {Ordinal: 2, Exists: true}}
		}, "QuorumLost", 0, 0),
		Entry("with the members that have joined, if it hibernated while it was scaled up", func() {
			o.State.Size = 3
			o.Claims = []etcdcluster.Claim{{Ordinal: 0, Exists: true}, {Ordinal: 1, Exists: true}, {Ordinal: 2}}
			o.MemberLeases = []etcdcluster.Lease{{Name: "main-0", Holder: "a1:1:Leader"}, {Name: "main-1"}}
		}, "WakeUp", 1, 3),
		Entry("not on leases of an earlier Etcd", func() {
			o.MemberLeases = []etcdcluster.Lease{{Name: "main-0", Holder: "a1:1:Leader"}, {Name: "main-1", Holder: "a2:1:Member", OwnerUID: "earlier"}}
			o.Claims = []etcdcluster.Claim{{Ordinal: 0, Exists: true}}
		}, "WakeUp", 1, 1),
		Entry("not at all where the data of all members is gone", func() { o.State.Size = 3 }, "QuorumLost", 0, 0),
	)
})
