// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var _ = DescribeTable("The versions of a member",
	func(member etcdcluster.Member, etcd, wrapper, sidecar string) {
		Expect(member.Versions()).To(Equal(etcdcluster.Versions{Etcd: etcd, Wrapper: wrapper, Sidecar: sidecar}))
	},
	Entry("are unknown without a response and without a pod", etcdcluster.Member{}, "", "", ""),
	Entry("come from its response and from the images in its pod", etcdcluster.Member{
		Endpoint: &etcdcluster.EndpointStatus{Version: "3.5.27"},
		Pod: &etcdcluster.Pod{Containers: []etcdcluster.Container{
			{Name: "etcd", Image: "example.com:5000/gardener/etcd-wrapper:v0.7.0@sha256:0a1b"}, {Name: "backup-restore", Image: "example.com:5000/gardener/etcdbrctl@sha256:2c3d"},
		}},
	}, "3.5.27", "v0.7.0", "sha256:2c3d"),
	Entry("do not contain other text that the member reports", etcdcluster.Member{
		Endpoint: &etcdcluster.EndpointStatus{Version: "<b>3.5.27</b>"}, Pod: &etcdcluster.Pod{Containers: []etcdcluster.Container{{Name: "etcd", Image: "example.com:5000/etcd-wrapper"}}},
	}, "", "", ""),
)
