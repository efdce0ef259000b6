// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/golden"
)

var _ = DescribeTable("The API server accepts the Jobs", func(ctx SpecContext, folder string) {
	namespace := env.Namespace(ctx, "jobs")
	files, err := golden.Paths(filepath.Join("..", "..", "..", "pkg", "component", "compaction", "testdata", folder))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		for _, job := range objectsIn(file) {
			job.SetNamespace(namespace)
			Expect(env.Client.Create(ctx, job, client.DryRunAll, client.FieldValidation("Strict"))).To(Succeed(), file)
		}
	}
},
	Entry("that compact snapshots", ""),
	Entry("that verify a restore", "restore-verification"),
	Entry("that inspect the volume of a member", "inspection"),
)
