// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"strings"

	upstreamcrds "github.com/gardener/etcd-druid/api/core/v1alpha1/crds"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
)

var _ = Describe("CustomResourceDefinitions", func() {
	It("names all three, sorted", func() {
		Expect(crds.Names()).To(Equal([]string{
			"etcdcopybackupstasks.druid.gardener.cloud",
			"etcdopstasks.druid.gardener.cloud",
			"etcds.druid.gardener.cloud",
		}))
	})

	It("finds none with an unknown name", func() {
		_, found := crds.ByName("etcds")
		Expect(found).To(BeFalse())
	})

	DescribeTable("an API server accepts the CustomResourceDefinition, with its rules compiled and their cost within the limits",
		func(name string) {
			content, found := crds.ByName(name)
			Expect(found).To(BeTrue())
			crd := &apiextensionsv1.CustomResourceDefinition{}
			Expect(yaml.UnmarshalStrict([]byte(content), crd)).To(Succeed())
			Expect(crd.Name).To(Equal(name))

			_, err := crdschema.New(content)
			Expect(err).NotTo(HaveOccurred())
		},
		Entry("of Etcd", "etcds.druid.gardener.cloud"),
		Entry("of EtcdCopyBackupsTask", "etcdcopybackupstasks.druid.gardener.cloud"),
		Entry("of EtcdOpsTask", "etcdopstasks.druid.gardener.cloud"),
	)

	DescribeTable("names, subresources, and columns of tasks are those of the etcd-druid API module",
		func(name string, hasItsColumns bool) {
			upstreamYAML, err := upstreamcrds.GetAll("1.34")
			Expect(err).NotTo(HaveOccurred())
			ours, upstream := &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
			Expect(yaml.UnmarshalStrict([]byte(crds.All()[name]), ours)).To(Succeed())
			Expect(yaml.UnmarshalStrict([]byte(upstreamYAML[name]), upstream)).To(Succeed())

			Expect(ours.Spec.Names).To(Equal(upstream.Spec.Names))
			Expect(ours.Spec.Scope).To(Equal(upstream.Spec.Scope))
			Expect(ours.Spec.Versions).To(HaveLen(1))
			Expect(ours.Spec.Versions[0].Name).To(Equal(upstream.Spec.Versions[0].Name))
			Expect(ours.Spec.Versions[0].Subresources).To(Equal(upstream.Spec.Versions[0].Subresources))
			if hasItsColumns {
				Expect(ours.Spec.Versions[0].AdditionalPrinterColumns).To(Equal(upstream.Spec.Versions[0].AdditionalPrinterColumns))
			}
		},
		// Its own columns fit a terminal, and are tested in the package of its type.
		Entry("of Etcd", "etcds.druid.gardener.cloud", false),
		Entry("of EtcdCopyBackupsTask", "etcdcopybackupstasks.druid.gardener.cloud", true),
		Entry("of EtcdOpsTask", "etcdopstasks.druid.gardener.cloud", true),
	)

	It("warns about deprecated fields of the manifest and never rejects them", func() {
		policyYAML, bindingYAML, found := strings.Cut(crds.DeprecatedFieldsWarnings(), "\n---\n")
		Expect(found).To(BeTrue())

		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		Expect(yaml.UnmarshalStrict([]byte(policyYAML), policy)).To(Succeed())
		Expect(policy.Spec.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Ignore)))
		Expect(policy.Spec.Validations).To(HaveLen(14))

		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		Expect(yaml.UnmarshalStrict([]byte(bindingYAML), binding)).To(Succeed())
		Expect(binding.Spec.PolicyName).To(Equal(policy.Name))
		Expect(binding.Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Warn))
	})
})
