// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var _ = DescribeTable("The problem of a pod that does not start",
	func(change func(*etcdcluster.Observation), sentence string) {
		o := etcdcluster.Observation{
			StatefulSet: etcdcluster.StatefulSet{Exists: true, Name: "main", SpecReplicas: 1},
			Pods:        []etcdcluster.Pod{{Name: "main-0", Node: "n1"}},
			Claims:      []etcdcluster.Claim{{Name: "main-main-0", Exists: true}},
		}
		change(&o)
		Expect(o.StartProblem(0)).To(Equal(sentence))
		if sentence == "" {
			Expect(o.StartProblems()).To(BeEmpty())
		} else {
			Expect(o.StartProblems()).To(ConsistOf(sentence))
		}
	},
	Entry("is empty while it starts", func(*etcdcluster.Observation) {}, ""),
	Entry("is empty while the pod is to be created", func(o *etcdcluster.Observation) { o.Pods = nil }, ""),
	Entry("is what admission refuses", func(o *etcdcluster.Observation) {
		o.Pods, o.StatefulSet.FailedCreate = nil, `create Pod main-0 in StatefulSet main failed error: pods "main-0" is forbidden: no PriorityClass with name absent was found`
	}, `StatefulSet main cannot create a pod: pods "main-0" is forbidden: no PriorityClass with name absent was found; correct the field, the quota, or the policy in this message`),
	Entry("is empty if the pod was created nevertheless", func(o *etcdcluster.Observation) { o.StatefulSet.FailedCreate = "earlier" }, ""),
	Entry("is empty for a member that the StatefulSet does not request", func(o *etcdcluster.Observation) {
		o.Pods, o.StatefulSet.FailedCreate, o.StatefulSet.SpecReplicas = nil, "earlier", 0
	}, ""),
	Entry("is that no node takes it", func(o *etcdcluster.Observation) {
		o.Pods[0].Unschedulable, o.Claims[0].Bound = "0/3 nodes are available.", true
	}, "pod main-0 is not scheduled: 0/3 nodes are available; let a node have room for it, or correct its resources and scheduling constraints"),
	Entry("is that its claim has no volume", func(o *etcdcluster.Observation) {
		o.Pods[0].Unschedulable, o.Claims[0].Warnings = "pod has unbound immediate PersistentVolumeClaims", []string{`storageclass "fast" not found`}
	}, `pod main-0 is not scheduled, because claim main-main-0 has no volume: storageclass "fast" not found; correct spec.storageClass and spec.storageCapacity, or the provisioner of the StorageClass`),
	Entry("is that its image cannot be pulled", func(o *etcdcluster.Observation) {
		o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", Image: "etcd:v9", State: etcdcluster.ContainerWaiting, Reason: "ImagePullBackOff"}}
	}, "image etcd:v9 of container etcd of pod main-0 cannot be pulled (ImagePullBackOff); correct spec.etcd.image, or let node n1 have the image"),
	Entry("is why a container waits", func(o *etcdcluster.Observation) {
		o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", State: etcdcluster.ContainerWaiting, Reason: "CrashLoopBackOff", LastTerminationReason: "OOMKilled"}}
	}, "container etcd of pod main-0 waits: CrashLoopBackOff (ended before: OOMKilled)"),
)
