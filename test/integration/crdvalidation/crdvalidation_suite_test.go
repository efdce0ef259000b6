// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package crdvalidation_test verifies with a real kube-apiserver that the CustomResourceDefinitions and their policy
// are valid and effective. There is one file for each group of rules. KUBEBUILDER_ASSETS is the directory with the
// binaries kube-apiserver and etcd.
//
// What may not live here: complete tables of values, which the unit tests of pkg/apis/druid/v1alpha1 cover.
package crdvalidation_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

func TestCRDValidation(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute) // a second is too short on a busy machine
	RunSpecs(t, "Integration CRD Validation Suite")
}

var (
	ctx       = context.Background()
	c         client.Client
	namespace string
	warnings  *recorder
)

var _ = BeforeSuite(func() {
	Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(), "KUBEBUILDER_ASSETS must be a folder with etcd and kube-apiserver: run the suite through make")
	testEnvironment := &envtest.Environment{CRDInstallOptions: envtest.CRDInstallOptions{CRDs: currentCRDs()}}
	restConfig, err := testEnvironment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(testEnvironment.Stop)

	testScheme := runtime.NewScheme()
	Expect(scheme.AddToScheme(testScheme)).To(Succeed())
	Expect(apiextensionsv1.AddToScheme(testScheme)).To(Succeed())
	Expect(druidv1alpha1.AddToScheme(testScheme)).To(Succeed())

	warnings = &recorder{}
	c, err = client.New(withWarnings(restConfig), client.Options{Scheme: testScheme})
	Expect(err).NotTo(HaveOccurred())

	installPolicy()
})

var _ = BeforeEach(func() {
	testNamespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "crdvalidation-"}}
	Expect(c.Create(ctx, testNamespace)).To(Succeed())
	namespace = testNamespace.Name
	warnings.reset()
})

func currentCRDs() []*apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	var list []*apiextensionsv1.CustomResourceDefinition
	for _, content := range crds.All() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.UnmarshalStrict([]byte(content), crd)).To(Succeed())
		list = append(list, crd)
	}

	return list
}

func installPolicy() {
	GinkgoHelper()
	policyYAML, bindingYAML, _ := strings.Cut(crds.DeprecatedFieldsWarnings(), "\n---\n")
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	Expect(yaml.UnmarshalStrict([]byte(policyYAML), policy)).To(Succeed())
	Expect(yaml.UnmarshalStrict([]byte(bindingYAML), binding)).To(Succeed())
	Expect(c.Create(ctx, policy)).To(Succeed())
	Expect(c.Create(ctx, binding)).To(Succeed())
}

// recorder records the warnings that the API server sends.
type recorder struct {
	mutex    sync.Mutex
	messages []string
}

func withWarnings(config *rest.Config) *rest.Config {
	copied := rest.CopyConfig(config)
	copied.WarningHandlerWithContext = warnings

	return copied
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (r *recorder) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, message string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.messages = append(r.messages, message)
}

func (r *recorder) reset() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.messages = nil
}

func (r *recorder) all() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()

	return append([]string(nil), r.messages...)
}

type override = func(*druidv1alpha1.Etcd)

// etcd returns a valid Etcd in the namespace of the spec. The options change it.
func etcd(options ...override) *druidv1alpha1.Etcd {
	object := fixture.Etcd(append([]override{fixture.WithNamespace(namespace)}, options...)...)
	object.UID, object.Generation = "", 0

	return object
}

// create creates an Etcd and returns the stored object.
func create(options ...override) *druidv1alpha1.Etcd {
	GinkgoHelper()
	object := etcd(options...)
	Expect(c.Create(ctx, object)).To(Succeed())

	return object
}

// change patches a stored Etcd.
func change(object *druidv1alpha1.Etcd, mutate override) error {
	before := object.DeepCopy()
	mutate(object)

	return c.Patch(ctx, object, client.MergeFrom(before))
}

func beRejected(message string) OmegaMatcher {
	return MatchError(And(ContainSubstring("is invalid"), ContainSubstring(message)))
}
