// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package example_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gardener/gardener/pkg/api/core/validation"
	"github.com/gardener/gardener/pkg/apis/core"
	"github.com/gardener/gardener/pkg/apis/core/install"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

// checkRegistration does what gardener-apiserver does: it decodes, sets defaults, converts to the internal form, validates.
func checkRegistration(document []byte) {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	install.Install(scheme)

	object, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(core.SchemeGroupVersion).Decode(document, nil, nil)
	Expect(err).NotTo(HaveOccurred())

	switch object := object.(type) {
	case *core.ControllerDeployment:
		Expect(validation.ValidateControllerDeployment(object)).To(BeEmpty())
		Expect(object.Helm.RawChart).NotTo(BeEmpty())
	case *core.ControllerRegistration:
		Expect(validation.ValidateControllerRegistration(object)).To(BeEmpty())
		Expect(object.Spec.Resources).To(BeEmpty())
		Expect(object.Spec.Deployment.Policy).To(HaveValue(Equal(core.ControllerDeploymentPolicyAlways)), "an extension without a kind cannot be installed on demand")
	default:
		Fail("an unexpected kind")
	}
}

// checkExtension validates with the CustomResourceDefinition that gardener-operator installs.
func checkExtension(document []byte) {
	GinkgoHelper()
	extension := &operatorv1alpha1.Extension{}
	Expect(yaml.UnmarshalStrict(document, extension)).To(Succeed())

	crd, err := os.ReadFile(filepath.Join(environment.ModuleDirectory("github.com/gardener/gardener"), "example", "operator", "10-crd-operator.gardener.cloud_extensions.yaml"))
	Expect(err).NotTo(HaveOccurred())
	schema, err := crdschema.New(string(crd))
	Expect(err).NotTo(HaveOccurred())
	manifest, err := crdschema.Decode(document)
	Expect(err).NotTo(HaveOccurred())
	_, unknown := schema.Admit(manifest)
	Expect(unknown).To(BeEmpty())
	Expect(schema.Create(manifest)).To(BeEmpty())
	Expect(extension.Spec.Deployment.ExtensionDeployment.Policy).To(HaveValue(BeEquivalentTo("Always")))

	version, err := os.ReadFile(filepath.Join("..", "VERSION"))
	Expect(err).NotTo(HaveOccurred())
	Expect(*extension.Spec.Deployment.ExtensionDeployment.Helm.OCIRepository.Ref).To(HaveSuffix(":" + strings.TrimSpace(string(version))))
}
