// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package example_test

import (
	"bytes"
	"os"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podsecurityapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const tutorial = "../docs/usage/first-etcd.md"

var (
	enforced = regexp.MustCompile(podsecurityapi.EnforceLevelLabel + `=(\w+)`)
	applied  = regexp.MustCompile(`(?s)kubectl apply -n first -f - <<EOF\n(.*?)\nEOF`)
)

// forbidden returns what the Pod Security Standard of the level forbids in the pods of the Etcd.
func forbidden(manifest *druidv1alpha1.Etcd, level podsecurityapi.Level) []string {
	GinkgoHelper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	Expect(err).NotTo(HaveOccurred())

	var reasons []string
	template := podTemplate(manifest)
	version := podsecurityapi.LevelVersion{Level: level, Version: podsecurityapi.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(version, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			reasons = append(reasons, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}

	return reasons
}

// podTemplate renders the pods of an Etcd.
func podTemplate(manifest *druidv1alpha1.Etcd) corev1.PodTemplateSpec {
	GinkgoHelper()
	canonical, errs := helper.Canonical(manifest)
	Expect(errs).To(BeEmpty())
	input := etcd.Input{
		Etcd: canonical, Replicas: canonical.Spec.Replicas, ClusterSize: canonical.Spec.Replicas,
		Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "example.com/etcd-wrapper:v1", BackupRestore: "example.com/etcd-backup-restore:v1", Init: "example.com/init:v1"}}},
	}
	if spec := canonical.Spec.Backup.Store; spec != nil {
		store, errs := backupstore.FromSpec(*spec, canonical.Namespace, canonical.Name, field.NewPath("spec", "backup", "store"))
		Expect(errs).To(BeEmpty())
		input.Store = &store
	}
	values, err := etcd.ValuesFor(input)
	Expect(err).NotTo(HaveOccurred())
	objects, err := etcd.Objects(values)
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		if statefulSet, ok := object.(*appsv1.StatefulSet); ok {
			return statefulSet.Spec.Template
		}
	}
	Fail("the Etcd has no StatefulSet")
	panic("not reached")
}

// withNamespace returns the Namespace and the Etcd of an example.
func withNamespace(file string) (*corev1.Namespace, *druidv1alpha1.Etcd) {
	GinkgoHelper()
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	documents := bytes.Split(content, []byte("\n---\n"))
	Expect(documents).To(HaveLen(2))
	namespace, manifest := &corev1.Namespace{}, &druidv1alpha1.Etcd{}
	Expect(yaml.UnmarshalStrict(documents[0], namespace)).To(Succeed())
	Expect(yaml.UnmarshalStrict(documents[1], manifest)).To(Succeed())

	return namespace, manifest
}

var _ = Describe("The pods of the examples", func() {
	DescribeTable("meet the Pod Security Standard that their namespace enforces",
		func(file string, level podsecurityapi.Level) {
			namespace, manifest := withNamespace(file)
			Expect(namespace.Labels).To(HaveKeyWithValue(podsecurityapi.EnforceLevelLabel, string(level)))
			Expect(forbidden(manifest, level)).To(BeEmpty())
		},
		Entry("without a store", "10-etcd-minimal.yaml", podsecurityapi.LevelRestricted),
		Entry("with a Local store", "20-etcd-local-store.yaml", podsecurityapi.LevelPrivileged),
		Entry("with a bucket", "30-etcd-tls.yaml", podsecurityapi.LevelRestricted),
	)

	It("mount a directory of the node with a Local store, which baseline forbids", func() {
		_, manifest := withNamespace("20-etcd-local-store.yaml")
		Expect(forbidden(manifest, podsecurityapi.LevelBaseline)).To(ContainElement(HavePrefix("hostPath volumes: ")))
	})

	It("meet in the tutorial the Pod Security Standard of each step", func() {
		page, err := os.ReadFile(tutorial)
		Expect(err).NotTo(HaveOccurred())
		levels := enforced.FindAllSubmatch(page, -1)
		Expect(levels).To(HaveLen(2))
		Expect(string(levels[0][1])).To(Equal("restricted"))
		Expect(string(levels[1][1])).To(Equal("privileged"), "before the Etcd gets a Local store")

		manifest := &druidv1alpha1.Etcd{}
		Expect(yaml.UnmarshalStrict(applied.FindSubmatch(page)[1], manifest)).To(Succeed())
		for _, level := range []podsecurityapi.Level{podsecurityapi.LevelBaseline, podsecurityapi.LevelRestricted} {
			Expect(forbidden(manifest, level)).To(BeEmpty())
		}
	})
})
