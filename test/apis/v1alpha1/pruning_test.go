// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"regexp"
	"slices"

	upstreamcrds "github.com/gardener/etcd-druid/api/core/v1alpha1/crds"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
)

// On seeds, gardenlet installs the CustomResourceDefinitions of the etcd-druid API module, which prune the additional
// fields of this module. A developer who adds a field extends this list and ensures that the absence of the field is
// safe.
var _ = Describe("Pruning", func() {
	DescribeTable("the CustomResourceDefinitions of the etcd-druid API module prune only these fields",
		func(name string, object runtime.Object, fields ...string) {
			upstreamYAML, err := upstreamcrds.GetAll("1.34")
			Expect(err).NotTo(HaveOccurred())

			Expect(pruned(upstreamYAML[name], object)).To(ConsistOf(fields))
		},
		Entry("of an Etcd", "etcds.druid.gardener.cloud", &druidv1alpha1.Etcd{},
			"spec.backup.imageRepository",
			"spec.backup.imageVersion",
			"spec.backup.snapstoreTempDir",
			"spec.backup.store.backupEntryRef",
			"spec.etcd.Quota",
			"spec.etcd.enableTLS",
			"spec.etcd.imageRepository",
			"spec.etcd.imageVersion",
			"spec.etcd.initialClusterState",
			"spec.etcd.initialClusterToken",
			"spec.etcd.pullPolicy",
			"spec.etcd.storageCapacity",
			"spec.etcd.storageClass",
			"spec.etcd.updateStrategy",
			"spec.etcd.version",
			"spec.pvcRetentionPolicy",
			"spec.recoveryPolicy",
			"spec.store",
			"spec.tlsClientSecret",
			"spec.tlsServerSecret",
			"status.members[*].etcdVersion",
			"status.members[*].sidecarVersion",
			"status.members[*].wrapperVersion",
		),
		Entry("of an EtcdCopyBackupsTask", "etcdcopybackupstasks.druid.gardener.cloud", &druidv1alpha1.EtcdCopyBackupsTask{},
			"spec.sourceStore.backupEntryRef",
			"spec.targetStore.backupEntryRef",
		),
		Entry("of an EtcdOpsTask", "etcdopstasks.druid.gardener.cloud", &druidv1alpha1.EtcdOpsTask{},
			"spec.config.backupInspection",
			"spec.config.compaction",
			"spec.config.defragmentation",
			"spec.config.restoreDrill",
			"status.members",
			"status.snapshot",
		),
	)

	DescribeTable("the CustomResourceDefinitions of this module prune nothing",
		func(name string, object runtime.Object) { Expect(pruned(crds.All()[name], object)).To(BeEmpty()) },
		Entry("of an Etcd", "etcds.druid.gardener.cloud", &druidv1alpha1.Etcd{}),
		Entry("of an EtcdCopyBackupsTask", "etcdcopybackupstasks.druid.gardener.cloud", &druidv1alpha1.EtcdCopyBackupsTask{}),
		Entry("of an EtcdOpsTask", "etcdopstasks.druid.gardener.cloud", &druidv1alpha1.EtcdOpsTask{}),
	)
})

// pruned fills every field of the object and returns the paths that the CustomResourceDefinition does not contain. Each path occurs once, without
// the index of a list item.
func pruned(crd string, object runtime.Object) []string {
	GinkgoHelper()
	newFiller().NilChance(0).Fill(object)
	manifest, err := crdschema.Decode(marshal(object))
	Expect(err).NotTo(HaveOccurred())
	schema, err := crdschema.New(crd)
	Expect(err).NotTo(HaveOccurred())
	_, unknown := schema.Admit(manifest)

	for i := range unknown {
		unknown[i] = index.ReplaceAllString(unknown[i], "[*]")
	}
	slices.Sort(unknown)

	return slices.Compact(unknown)
}

// index is the index of a list item in a path.
var index = regexp.MustCompile(`\[\d+\]`)
