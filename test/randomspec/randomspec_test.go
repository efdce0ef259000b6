// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package randomspec_test

import (
	"math/rand"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
	"github.com/gardener/gardener-extension-etcd-druid/test/randomspec"
)

var _ = Describe("Random objects", func() {
	const count = 200
	generate := func(kind randomspec.Kind, seed int64) []map[string]any {
		objects, missing, err := kind.Generate(rand.New(rand.NewSource(seed)), count)
		Expect(err).NotTo(HaveOccurred())
		Expect(missing).To(BeEmpty(), "points of the schema that no object reaches")
		Expect(objects).To(HaveLen(count))

		return objects
	}

	DescribeTable("are mostly valid, reach each point of the schema, and are the same for the same seed", func(kind randomspec.Kind, crd string, seed int64) {
		objects := generate(kind, seed)
		Expect(generate(kind, seed)).To(Equal(objects))
		schema, err := crdschema.New(crds.All()[crd])
		Expect(err).NotTo(HaveOccurred())
		accepted := 0
		reasons := map[string]int{}
		for _, object := range objects {
			if errs := schema.Create(object); len(errs) == 0 {
				accepted++
			} else {
				reasons[errs.ToAggregate().Error()]++
			}
		}
		GinkgoWriter.Println(reasons)
		Expect(accepted).To(And(BeNumerically(">", count*6/10), BeNumerically("<", count)))
	},
		Entry("Etcds", randomspec.Etcd, "etcds.druid.gardener.cloud", int64(1)),
		Entry("Etcds with another seed", randomspec.Etcd, "etcds.druid.gardener.cloud", int64(2)),
		Entry("EtcdCopyBackupsTasks", randomspec.CopyBackupsTask, "etcdcopybackupstasks.druid.gardener.cloud", int64(1)),
		Entry("EtcdOpsTasks", randomspec.OpsTask, "etcdopstasks.druid.gardener.cloud", int64(1)),
	)
})
