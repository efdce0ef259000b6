// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

var _ = Describe("A manifest with deprecated fields", func() {
	It("becomes ready without changes, and its snapshots are written to an S3 store", framework.NeedsSeed("uses the object store of the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "deprecated")
		store := ns.StartObjectStore(ctx)

		manifest, err := os.ReadFile(filepath.Join("..", "..", "example", "40-etcd-deprecated-fields.yaml"))
		Expect(err).NotTo(HaveOccurred())
		etcd := &druidv1alpha1.Etcd{}
		Expect(yaml.UnmarshalStrict(manifest, etcd)).To(Succeed())
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 10)
		writeLog.ExpectComplete(ctx)

		eventuallySnapshot(ctx, ns, etcd, "test-full-snap", 0)
		Expect(filepath.Glob(filepath.Join(store.Dir(ctx, "test"), "etcd-test", "v2", "Full-*"))).NotTo(BeEmpty())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "StoreResolved").Message).To(ContainSubstring("S3 container \"test\""))
			g.Expect(framework.Condition(etcd, "FullSnapshotReady").Status).To(BeEquivalentTo("True"))
		})
	}, SpecTimeout(specTimeout))
})
