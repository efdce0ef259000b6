// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("A change of the version of etcd", func() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	verified := etcdcluster.SnapshotAttempts{Verified: &state.VerifiedSnapshot{Name: "Full-1", Revision: 42, At: now.Add(-time.Minute)}, EndedAt: now.Add(-time.Minute)}

	var (
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	// cluster sets up a healthy cluster with the number of members, whose recorded version and reported version are from.
	cluster := func(size int, from, reported, to string) {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID, etcd.Generation = "main", "demo", "etcd-uid", 4
		etcd.Spec.Replicas = int32(size) // #nosec G115 -- 1 or 3
		etcd.Spec.Etcd.Version = &to
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "demo--main"}
		replicas := etcd.Spec.Replicas
		o = etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main"},
			State:           state.State{Size: replicas, Replicas: &replicas, EtcdVersion: from, Accepted: &state.Accepted{}},
			StatefulSet:     etcdcluster.StatefulSet{Exists: true, Name: "main", SpecReplicas: replicas, UpdateRevision: "new"},
			Etcd:            etcdcluster.EtcdResponses{Queried: true, ClusterVersion: cmp.Or(from, "3.4") + ".0"},
		}
		for ordinal := range size {
			id, name := uint64(0xa1+ordinal), fmt.Sprintf("main-%d", ordinal) // #nosec G115 -- 0 to 2
			o.Pods = append(o.Pods, etcdcluster.Pod{
				Name: name, Ordinal: ordinal, UID: types.UID("uid-of-" + name), RevisionHash: "new", Ready: true, ContainersReady: true,
				Containers: []etcdcluster.Container{{Name: "etcd", State: "Running"}}, CreationTime: now.Add(-time.Hour),
			})
			o.Claims = append(o.Claims, etcdcluster.Claim{Name: "main-" + name, Ordinal: ordinal, Exists: true})
			o.MemberLeases = append(o.MemberLeases, etcdcluster.Lease{Name: name, Exists: true, Holder: "1:Member"})
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: ordinal, Reachable: true, Healthy: true, MemberID: id, ClusterID: 1, LeaderID: 0xa1, Version: reported})
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: id, Name: name, PeerURLs: []string{"http://" + name + ".main-peer.demo.svc:2380"}})
		}
	}

	BeforeEach(func() { cluster(3, "3.4", "3.4.34", "3.5") })

	p := func() plan.Plan { return planner.For(etcd, o, now) }
	takes := plan.TakeSnapshot{Meta: plan.Meta{Object: "main", UID: "etcd-uid"}}

	DescribeTable("takes a full snapshot first, and renders nothing meanwhile",
		func(size int) {
			cluster(size, "3.4", "3.4.34", "3.5")
			Expect(p().Step).To(Equal(takes), "%s: %s", p().Reason, p().WaitsFor)
			Expect(p().Render).To(BeFalse())
			Expect(p().Reason).To(HaveSuffix("etcd changes from 3.4 to 3.5 after a full snapshot"))
			o.SnapshotAttempts.Running = true
			Expect(p().WaitsFor).To(Equal("a full snapshot to be stored and verified"))
			Expect(p().Render).To(BeFalse())
			o.SnapshotAttempts = verified
			Expect(p().EtcdVersion).To(Equal("3.5"))
			Expect(p().NextEtcdVersion).To(BeEmpty())
			Expect(p().Render).To(BeTrue())
			Expect(p().Step).To(BeNil())
		},
		Entry("one member", 1),
		Entry("three members", 3),
	)

	It("renders the rest of the spec if the snapshot fails three times, and continues to try", func() {
		o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Failures: 2, Error: "the store is down", StartedAt: now.Add(-time.Second), EndedAt: now}
		Expect(p().Render).To(BeFalse())
		Expect(p().WaitsFor).To(ContainSubstring("the store is down"))
		o.SnapshotAttempts.Failures = 3
		Expect(p().Render).To(BeTrue())
		Expect(p().EtcdVersion).To(Equal("3.4"))
		Expect(p().NextEtcdVersion).To(Equal("3.5"), "the generation is not rolled out")
		Expect(p().WaitsFor).To(ContainSubstring("the store is down"))
		o.SnapshotAttempts.EndedAt = now.Add(-time.Hour)
		Expect(p().Step).To(Equal(takes))
	})

	It("renders the rest of the spec if an attempt to take the snapshot was long, which the rest may correct", func() {
		o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Failures: 1, Error: "timeout", StartedAt: now.Add(-time.Hour), EndedAt: now}
		Expect(p().Render).To(BeTrue())
	})

	It("renders the rest of the spec if the snapshot waits for new pods", func() {
		o.State.Store = &state.Store{Provider: "ECS", ChangedAt: now.Add(-time.Minute)}
		Expect(p().WaitsFor).To(ContainSubstring("reads the endpoint of the store only when it starts"))
		Expect(p().Render).To(BeTrue())
		Expect(p().EtcdVersion).To(Equal("3.4"))
	})

	It("needs no snapshot without a store", func() {
		etcd.Spec.Backup.Store = nil
		Expect(p().EtcdVersion).To(Equal("3.5"))
	})

	It("does not use a snapshot that is older than the validity of snapshots", func() {
		o.SnapshotAttempts = verified
		o.SnapshotAttempts.EndedAt = now.Add(-time.Hour)
		Expect(p().EtcdVersion).To(Equal("3.4"))
		Expect(p().Step).To(Equal(takes))
	})

	DescribeTable("is postponed, and the rest of the spec is rolled out",
		func(change func(), awaited string) {
			o.SnapshotAttempts = verified
			change()
			Expect(p().EtcdVersion).To(Equal("3.4"))
			Expect(p().NextEtcdVersion).To(Equal("3.5"))
			Expect(p().Render).To(BeTrue())
			Expect(p().WaitsFor).To(ContainSubstring(awaited))
			Expect(p().Outcome()).To(Equal(plan.OutcomeWaiting))
		},
		Entry("while a member is not healthy", func() {
			o.Etcd.Members[1] = etcdcluster.EndpointStatus{Ordinal: 1}
			o.Pods[1].Ready, o.Pods[1].ContainersReady = false, false
		}, "main-1"),
		Entry("while a member is a learner", func() { o.Etcd.MemberList[2].Learner, o.Etcd.Members[2].Learner = true, true }, "main-2"),
		Entry("while a member of no pod is a learner", func() {
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 7, Name: "other", Learner: true})
		}, "learner other to be promoted"),
		Entry("without the member list", func() { o.Etcd.MemberList, o.Etcd.MemberListError = nil, "timeout" }, "the member list: timeout"),
		Entry("while members are defragmented", func() { o.Defragmentation = "task" }, "EtcdOpsTask task to end"),
		Entry("while the peer URLs change", func() { o.PeerChangePending = true }, "the peer URLs of all members to change"),
		Entry("while a member reports a version that is none of both", func() { o.Etcd.Members[1].Version = "3.3.27" }, `member main-1 to report etcd 3.4; it reports "3.3.27"`),
		Entry("until the leader has raised the cluster version", func() { o.Etcd.ClusterVersion = "3.3.0" }, `the cluster version of etcd to be 3.4; it is "3.3.0"`),
		Entry("while the cluster version is not decided", func() { o.Etcd.ClusterVersion = "" }, `the cluster version of etcd to be 3.4; it is ""`),
		Entry("while the cluster version is not known", func() {
			o.Etcd.ClusterVersion, o.Etcd.ClusterVersionError = "", "timeout"
		}, "a member to report the cluster version of etcd: timeout"),
		Entry("while a member reports no version", func() { o.Etcd.Members[1].Version = "" }, `member main-1 to report etcd 3.4; it reports ""`),
		Entry("after the cluster has lost acknowledged writes", func() {
			o.State.Evidence = &state.Evidence{HighestRevision: 42, RolledBack: &state.RolledBack{Revision: 41}}
		}, "accept-revision=41"),
	)

	It("begins although the leader has not lowered the cluster version yet", func() {
		o.SnapshotAttempts, o.Etcd.ClusterVersion = verified, "3.5.0"
		Expect(p().EtcdVersion).To(Equal("3.5"))
	})

	DescribeTable("begins a downgrade with any cluster version", func(version string) {
		cluster(3, "3.5", "3.5.27", "3.4")
		o.SnapshotAttempts, o.Etcd.ClusterVersion, o.Etcd.AuthEnabled = verified, version, new(false)
		Expect(p().EtcdVersion).To(Equal("3.4"))
	},
		Entry("that members of a joined cluster keep low", "3.4.0"),
		Entry("that is not known", ""),
	)

	It("is postponed until outdated pods are replaced", func() {
		o.SnapshotAttempts = verified
		o.Pods[2].RevisionHash = "old"
		Expect(p().Step).To(BeAssignableToTypeOf(plan.EvictPod{}))
		Expect(p().EtcdVersion).To(Equal("3.4"))
	})

	DescribeTable("continues after it has begun, and returns without conditions",
		func(from, to string) {
			cluster(3, from, "3.4.34", to)
			o.Etcd.Members[2] = etcdcluster.EndpointStatus{Ordinal: 2}
			o.Pods[2].Ready, o.Pods[2].ContainersReady = false, false
			o.Etcd.Members[1].Version = "3.5.27"
			Expect(p().EtcdVersion).To(Equal(to))
			Expect(p().NextEtcdVersion).To(BeEmpty())
			Expect(p().Blocked).NotTo(HaveOccurred())
		},
		Entry("continues", "3.5", "3.5"),
		Entry("returns", "3.5", "3.4"),
		Entry("returns from a downgrade", "3.4", "3.5"),
	)

	It("returns if the single member does not start with the newer version", func() {
		cluster(1, "3.5", "", "3.4")
		o.Etcd.Members, o.Etcd.MemberList = []etcdcluster.EndpointStatus{{Ordinal: 0}}, nil
		o.Pods[0].Ready, o.Pods[0].ContainersReady = false, false
		o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", State: "Waiting", Reason: "ImagePullBackOff"}}
		Expect(o.Pods[0].NeverStarts()).To(BeTrue())
		Expect(p().EtcdVersion).To(Equal("3.4"))
		o.State.EtcdVersion, etcd.Spec.Etcd.Version = "3.4", new("3.5")
		Expect(p().EtcdVersion).To(Equal("3.4"), "an upgrade waits until the member is healthy")
	})

	DescribeTable("keeps the version of a cluster that does not run",
		func(next string, change func()) {
			change()
			Expect(p().EtcdVersion).To(Equal("3.4"))
			Expect(p().NextEtcdVersion).To(Equal(next))
			Expect(p().Render).To(BeTrue())
		},
		Entry("while it hibernates, which completes the generation", "", func() {
			etcd.Spec.Replicas = 0
			o.StatefulSet.SpecReplicas, o.State.Replicas, o.Pods, o.Etcd = 0, new(int32(0)), nil, etcdcluster.EtcdResponses{}
		}),
		Entry("while it wakes up, before it changes", "3.5", func() {
			o.StatefulSet.SpecReplicas, o.State.Replicas, o.Pods, o.Etcd = 0, new(int32(0)), nil, etcdcluster.EtcdResponses{}
		}),
	)

	It("is none for a cluster that never ran, whatever the version", func() {
		o = etcdcluster.Observation{}
		Expect(p().EtcdVersion).To(Equal("3.5"))
		Expect(p().NextEtcdVersion).To(BeEmpty())
	})

	It("is none while the version of an adopted cluster is not known, which counts as 3.4", func() {
		cluster(3, "", "3.4.34", "3.4")
		etcd.Spec.Etcd.Version = nil
		Expect(p().EtcdVersion).To(BeEmpty())
		etcd.Spec.Etcd.Version = new("3.4")
		Expect(p().EtcdVersion).To(Equal("3.4"))
		Expect(p().Step).To(BeNil(), "the version is the same")
		etcd.Spec.Etcd.Version = new("3.5")
		Expect(p().Step).To(Equal(takes))
	})

	DescribeTable("is refused, and the rest of the spec is rolled out",
		func(from, reported, to string, change func(), message string) {
			cluster(3, from, reported, to)
			o.SnapshotAttempts, o.Etcd.AuthEnabled = verified, new(false)
			change()
			Expect(p().EtcdVersion).To(Equal(from))
			Expect(p().Render).To(BeTrue())
			Expect(p().Outcome()).To(Equal(plan.OutcomeBlocked))
			Expect(p().Blocked.Error()).To(HavePrefix("spec.etcd.version: the members keep etcd " + from + ": "))
			Expect(p().Blocked.Error()).To(ContainSubstring(message))
		},
		Entry("if it skips a version", "3.4", "3.4.34", "3.6", func() {}, "only between adjacent minor versions"),
		Entry("if only the image of etcd-wrapper is set", "3.4", "3.4.34", "3.5", func() { etcd.Spec.Etcd.Image = new("w") }, "set both, or remove both"),
		Entry("if only the image of the sidecar is set", "3.4", "3.4.34", "3.5", func() { etcd.Spec.Backup.Image = new("b") }, "set both, or remove both"),
		Entry("if etcd authenticates clients, for a downgrade", "3.5", "3.5.27", "3.4", func() { o.Etcd.AuthEnabled = new(true) }, "disable the authentication of etcd, or restore a new Etcd from a full snapshot of etcd 3.4"),
		Entry("if names of members have a prefix, for a downgrade", "3.5", "3.5.27", "3.4", func() { etcd.Spec.MemberNamePrefix = new("green") }, "spec.memberNamePrefix needs etcd-backup-restore v0.43.0"),
	)

	It("is refused while the gate compares the volumes too", func() {
		cluster(3, "3.4", "3.4.34", "3.6")
		gated := planner.Gate(p(), etcdcluster.Rendering{Checksum: "c"}, o)
		Expect(gated.Blocked).To(HaveOccurred())
	})

	It("downgrades if no client authenticates", func() {
		cluster(3, "3.5", "3.5.27", "3.4")
		o.SnapshotAttempts = verified
		Expect(p().WaitsFor).To(Equal("a member to report whether the authentication of etcd is enabled"))
		o.Etcd.AuthEnabled = new(false)
		Expect(p().EtcdVersion).To(Equal("3.4"))
		o.SnapshotAttempts = etcdcluster.SnapshotAttempts{}
		Expect(p().Step).To(Equal(takes))
	})

	It("continues without a snapshot that a user skips", func() {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation, "")
		Expect(p().EtcdVersion).To(Equal("3.5"))
	})

	It("applies at once to members that are managed externally", func() {
		etcd.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
		Expect(p().EtcdVersion).To(Equal("3.5"))
	})
})
