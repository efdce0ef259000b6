// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// differ records that comparisons have found different data in the members of an observation. The hashes are those of the last one.
func differ(o *etcdcluster.Observation, hashes ...uint32) {
	found := &state.Inconsistency{Since: now.Add(-2 * time.Minute), At: now, Revision: 9, Comparisons: 3}
	for i, hash := range hashes {
		listed := o.Etcd.MemberList[i]
		found.Members = append(found.Members, state.MemberHash{Name: listed.Name, ID: etcdcluster.FormatID(listed.ID), Hash: hash})
	}
	o.State.Inconsistency = found
}

var _ = Describe("From", func() {
	var (
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	// observed sets the observation of a healthy cluster with the image v1, whose first member leads.
	observed := func(replicas int32) {
		etcd = newEtcd(replicas)
		o = etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main", GenerationObserved: true, Applied: etcdcluster.ConditionFact{Status: "True"}},
			State:           state.State{Size: replicas, Replicas: &replicas},
			StatefulSet: etcdcluster.StatefulSet{
				Exists: true, Name: "main", UID: "set", OwnerUID: "etcd-uid", Generation: 1, ObservedGeneration: 1, SpecReplicas: replicas,
				UpdateRevision: "main-5d4f", PeerPort: 2380, HasPreStopHook: replicas > 1, Rendering: manifest(etcd, "v1", replicas, replicas).Rendering,
			},
		}
		o.StatefulSet.Rendering.Checksum = "of the operator"
		for ordinal := range int(replicas) {
			name, id := helper.PodName(etcd, ordinal), uint64(ordinal)+100 // #nosec G115 -- an ordinal
			o.Pods = append(o.Pods, etcdcluster.Pod{
				Name: name, Ordinal: ordinal, UID: types.UID("pod-" + name), RevisionHash: "main-5d4f", OwnerUID: "set", Node: "node-" + name, PeerPort: 2380,
				Ready: true, ContainersReady: true, CreationTime: now.Add(-time.Hour), ReadyChangedAt: now.Add(-time.Hour), HasPreStopHook: replicas > 1,
				Containers: []etcdcluster.Container{{Name: "init", Init: true}, {Name: "etcd", Image: "v1", State: etcdcluster.ContainerRunning, Ready: true}},
			})
			o.Claims = append(o.Claims, etcdcluster.Claim{
				Name: helper.ClaimName(etcd, ordinal), Ordinal: ordinal, Exists: true, Bound: true, UID: types.UID("claim-" + name),
				Nodes: []string{"node-" + name}, Requested: 16 << 30, Capacity: 16 << 30,
			})
			o.MemberLeases = append(o.MemberLeases, etcdcluster.Lease{Exists: true, Name: name, UID: types.UID("lease-" + name), Holder: fmt.Sprintf("%x:7:Member", id), RenewTime: now, TLSEnabled: new(false)})
			if replicas == 1 {
				continue
			}
			o.Etcd.Queried = true
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: ordinal, Reachable: true, Healthy: true, MemberID: id, ClusterID: 7, LeaderID: 100, Version: "3.5.27"})
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: id, Name: name, PeerURLs: []string{"http://" + name + ".main-peer.demo.svc:2380"}})
		}
	}
	// steps returns the steps that the operator takes with an image until nothing changes, and its last stage.
	steps := func(image string) []string {
		GinkgoHelper()
		running := manifest(etcd, "v1", o.StatefulSet.SpecReplicas, max(o.State.Size, 1))
		c := simulator.From(o, etcd, now, &running)

		return simulate(c, image)
	}

	It("changes nothing in a cluster that is as its spec requests", func() {
		observed(3)
		c := simulator.From(o, etcd, now, nil)
		for range 30 {
			c.Tick()
		}
		Expect(c.Incidents).To(BeEmpty())
		Expect(c.Observe().Pods).To(HaveEach(And(HaveField("Ready", true), HaveField("RevisionHash", "main-5d4f"))))
		Expect(c.Observe().Etcd.Members).To(HaveEach(And(HaveField("Healthy", true), HaveField("LeaderID", uint64(100)), HaveField("Version", "3.5.27"))))
		Expect(o.Pods[0].Containers).To(HaveLen(2), "the observation of the caller stays")
	})

	It("restarts etcd in a pod without a sidecar", func() {
		observed(3)
		c := simulator.From(o, etcd, now, nil)
		c.StopEtcd(1)
		c.Tick()
		Expect(c.Observe().Pods[1].Containers).To(ContainElement(And(HaveField("Name", "etcd"), HaveField("State", etcdcluster.ContainerRunning))))
	})

	It("keeps a member of another cluster", func() {
		observed(3)
		o.Etcd.Members[2].ClusterID++
		members := simulator.From(o, etcd, now, nil).Observe().Etcd.Members
		Expect(members[1].ClusterID).To(Equal(members[0].ClusterID))
		Expect(members[2].ClusterID).NotTo(Equal(members[0].ClusterID))
	})

	DescribeTable("continues with",
		func(replicas int32, image string, change func(), expected ...string) {
			observed(replicas)
			change()
			Expect(steps(image)).To(Equal(expected))
		},
		Entry("nothing to do", int32(3), "v1", func() {}, "Done"),
		Entry("followers first and the leader last", int32(3), "v2", func() {}, "EvictPod main-1", "EvictPod main-2", "MoveLeader main-0", "EvictPod main-0", "Done"),
		Entry("a single member, which is not queried", int32(1), "v2", func() {}, "DeletePod main-0", "Done"),
		Entry("members that join", int32(3), "v1", func() { etcd.Spec.Replicas = 5 },
			"PromoteMember main-3", "PromoteMember main-4", "Done"),
		Entry("a volume that is lost with its node", int32(3), "v1", func() {
			o.Pods, o.Etcd.Members = o.Pods[:2], o.Etcd.Members[:2]
			o.Nodes = []etcdcluster.Node{{Name: "node-main-2"}}
		}, "ReplaceClaim main-main-2", "PromoteMember main-2", "Done"),
		Entry("volumes that are expanded", int32(3), "v1", func() { etcd.Spec.StorageCapacity = new(resource.MustParse("20Gi")) },
			"ResizeClaim main-main-0", "ResizeClaim main-main-1", "ResizeClaim main-main-2", "RecreateStatefulSet main", "RequestReconcile druid-main", "Done"),
		Entry("a member with other data than a quorum", int32(3), "v1", func() { differ(&o, 1, 2, 2) }, "MoveLeader main-0", "ExcludePod main-0", "ReplaceClaim main-main-0", "EvictPod main-0", "PromoteMember main-0", "Done"),
		Entry("a member that clients do not use any more", int32(3), "v1", func() {
			differ(&o, 2, 2, 1)
			o.Pods[2].Excluded = true
		}, "ReplaceClaim main-main-2", "EvictPod main-2", "PromoteMember main-2", "Done"),
		Entry("a cluster that wakes up", int32(3), "v1", func() {
			o.Pods, o.Etcd, o.StatefulSet.SpecReplicas, o.State.Replicas = nil, etcdcluster.EtcdResponses{}, 0, new(int32(0))
		}, "Done"),
		Entry("a cluster that hibernates", int32(3), "v1", func() { etcd.Spec.Replicas = 0 }, "Hibernated"),
		Entry("an image that cannot be pulled, which is corrected", int32(3), "v3", func() {
			pod := &o.Pods[2]
			pod.RevisionHash, pod.Ready, pod.ContainersReady, o.Etcd.Members[2] = "main-5d4f", false, false, etcdcluster.EndpointStatus{Ordinal: 2}
			pod.Containers[1] = etcdcluster.Container{Name: "etcd", Image: "v2", State: etcdcluster.ContainerWaiting, Reason: "ImagePullBackOff"}
		}, "DeletePod main-2", "EvictPod main-1", "MoveLeader main-0", "EvictPod main-0", "Done"),
		Entry("nothing at all", int32(3), "v1", func() { o = etcdcluster.Observation{} },
			"PromoteMember main-1", "PromoteMember main-2", "MoveLeader main-0", "EvictPod main-0", "Done"),
	)
})
