// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var _ = DescribeTable("The port at which clients are served is",
	func(rendered int32, pods []int32, want int) {
		o := etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{ClientPort: rendered}}
		for i, port := range pods {
			o.Pods = append(o.Pods, etcdcluster.Pod{ClientPort: port, CreationTime: time.Unix(int64(i), 0)})
		}
		Expect(o.ActiveClientPort()).To(BeEquivalentTo(want))
	},
	Entry("not known of nothing", int32(0), nil, 0),
	Entry("that of the StatefulSet without pods", int32(2379), nil, 2379),
	Entry("that of pods until one was recreated", int32(12379), []int32{2379, 2379}, 2379),
	Entry("that of the StatefulSet as soon as one pod has it", int32(12379), []int32{2379, 12379, 2379}, 12379),
	Entry("that of the StatefulSet where an older one is rendered again", int32(2379), []int32{2379, 12379}, 2379),
	Entry("that of the youngest pod without a StatefulSet", int32(0), []int32{2379, 12379}, 12379),
	Entry("that of the StatefulSet if the port of pods is unknown", int32(2379), []int32{0}, 2379),
	Entry("that of pods with a known port", int32(0), []int32{2379, 0}, 2379),
)
