// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
)

var _ = Describe("flags for the number of workers", func() {
	DescribeTable("that of the extension library wins over the deprecated one", func(library, deprecated string, read func(configv1alpha1.ControllerConfiguration) *int) {
		for _, given := range [][]string{{library, deprecated}, {deprecated, library}} {
			options := app.NewOptions()
			flags := pflag.NewFlagSet("operator", pflag.ContinueOnError)
			options.AddFlags(flags)
			for _, name := range given {
				Expect(flags.Set(name, map[string]string{library: "5", deprecated: "7"}[name])).To(Succeed())
			}
			_ = options.Complete() // whether there is a cluster to connect to does not matter
			Expect(read(options.Config.Controllers)).To(HaveValue(Equal(5)))
		}
	},
		Entry("for Etcds", "etcd-max-concurrent-reconciles", "etcd-workers", func(c configv1alpha1.ControllerConfiguration) *int { return c.Etcd.ConcurrentSyncs }),
		Entry("for compaction", "compaction-max-concurrent-reconciles", "compaction-workers", func(c configv1alpha1.ControllerConfiguration) *int { return c.Compaction.ConcurrentSyncs }),
		Entry("for tasks", "opstask-max-concurrent-reconciles", "etcd-ops-task-workers", func(c configv1alpha1.ControllerConfiguration) *int { return c.EtcdOpsTask.ConcurrentSyncs }),
	)
})
