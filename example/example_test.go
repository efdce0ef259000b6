// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package example_test checks the manifests of this folder, so that what a newcomer applies first works.
//
// What may not live here: anything but checks of the manifests of this folder.
package example_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
)

var _ = Describe("The examples", func() {
	It("are all here", func() {
		Expect(manifests()).To(Equal([]string{
			"10-etcd-minimal.yaml", "20-etcd-local-store.yaml", "30-etcd-tls.yaml", "35-etcd-gardener.yaml", "40-etcd-deprecated-fields.yaml",
			"50-etcdcopybackupstask.yaml", "60-etcdopstask-full-snapshot.yaml", "61-etcdopstask-delta-snapshot.yaml",
			"62-etcdopstask-compaction.yaml", "63-etcdopstask-defragmentation.yaml",
			"controller-registration.yaml", "extension.yaml",
		}))
	})

	for _, file := range manifests() {
		It("are known to the last field, valid and renderable: "+file, func() {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())

			for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
				check(document)
			}
		})
	}
})

func manifests() []string {
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		panic(err)
	}

	return files
}

func check(document []byte) {
	GinkgoHelper()
	object := map[string]any{}
	Expect(yaml.Unmarshal(document, &object)).To(Succeed())

	switch kind := object["kind"]; kind {
	case "Namespace":
		Expect(yaml.UnmarshalStrict(document, &corev1.Namespace{})).To(Succeed())
	case "Etcd":
		etcd := &druidv1alpha1.Etcd{}
		checkSchema(document, etcd, "etcds.druid.gardener.cloud")
		checkEtcd(etcd)
	case "EtcdCopyBackupsTask":
		task := &druidv1alpha1.EtcdCopyBackupsTask{}
		checkSchema(document, task, "etcdcopybackupstasks.druid.gardener.cloud")
		checkStore(task.Spec.SourceStore)
		checkStore(task.Spec.TargetStore)
	case "EtcdOpsTask":
		checkSchema(document, &druidv1alpha1.EtcdOpsTask{}, "etcdopstasks.druid.gardener.cloud")
	case "ControllerDeployment", "ControllerRegistration":
		checkRegistration(document)
	case "Extension":
		checkExtension(document)
	case nil:
		Expect(object).To(BeEmpty(), "a comment")
	default:
		Fail(fmt.Sprintf("no example is of kind %v", kind))
	}
}

// checkSchema decodes strictly and validates with the CustomResourceDefinition of the name.
func checkSchema(document []byte, object runtime.Object, crd string) {
	GinkgoHelper()
	Expect(yaml.UnmarshalStrict(document, object)).To(Succeed())

	schema, err := crdschema.New(crds.All()[crd])
	Expect(err).NotTo(HaveOccurred())
	manifest, err := crdschema.Decode(document)
	Expect(err).NotTo(HaveOccurred())
	_, unknown := schema.Admit(manifest)
	Expect(unknown).To(BeEmpty())
	Expect(schema.Create(manifest)).To(BeEmpty())
}

func checkEtcd(etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	canonical, errs := helper.Canonical(etcd)
	Expect(errs).To(BeEmpty())
	Expect(validation.ValidateEtcd(canonical)).To(BeEmpty())
	Expect(validation.ValidateBounds(canonical, nil)).To(BeEmpty())
	Expect(validation.ValidateSize(canonical, 0)).To(BeEmpty())
	if store := canonical.Spec.Backup.Store; store != nil && store.Provider != nil {
		checkStore(*store)
	}
}

func checkStore(store druidv1alpha1.StoreSpec) {
	GinkgoHelper()
	_, errs := backupstore.FromSpec(store, "namespace", "name", field.NewPath("store"))
	Expect(errs).To(BeEmpty())
}
