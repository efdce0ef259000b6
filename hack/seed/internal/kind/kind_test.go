// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/kind"
)

var _ = Describe("Config", func() {
	It("has three workers in different zones, and all nodes share the directory of the Local store", func() {
		config := kind.Config("/host/store")
		zones := map[string]bool{}

		for _, node := range config.Nodes {
			Expect(node.ExtraMounts).To(ConsistOf(v1alpha4.Mount{HostPath: "/host/store", ContainerPath: "/etc/gardener/local-backupbuckets"}))

			if node.Role == v1alpha4.WorkerRole {
				zones[node.Labels["topology.kubernetes.io/zone"]] = true
			}
		}

		Expect(config.Nodes).To(HaveLen(4))
		Expect(config.Nodes[0].Role).To(Equal(v1alpha4.ControlPlaneRole))
		Expect(zones).To(HaveLen(3))
		Expect(zones).NotTo(HaveKey(""))
	})
})

var _ = Describe("Find", func() {
	It("returns an error with the remedy on a machine without a container engine", func() {
		GinkgoT().Setenv("PATH", GinkgoT().TempDir())
		_, err := kind.Find()
		Expect(err).To(MatchError(And(ContainSubstring("kind needs docker, podman or nerdctl"), ContainSubstring("`make up`"))))
	})
})
