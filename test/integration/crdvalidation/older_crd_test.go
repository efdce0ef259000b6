// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	upstreamcrds "github.com/gardener/etcd-druid/api/core/v1alpha1/crds"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
)

const etcdCRD = "etcds.druid.gardener.cloud"

// createWithOlderCRD creates an Etcd while the CustomResourceDefinition of the etcd-druid API module is installed. It
// then installs the CustomResourceDefinition of this module again.
func createWithOlderCRD(options ...override) *druidv1alpha1.Etcd {
	GinkgoHelper()
	upstream, err := upstreamcrds.GetAll("1.34")
	Expect(err).NotTo(HaveOccurred())

	install(upstream[etcdCRD])
	DeferCleanup(func() { install(crds.All()[etcdCRD]) })
	object := etcd(options...)
	Eventually(func() error { return c.Create(ctx, object.DeepCopy()) }).Should(Succeed())

	install(crds.All()[etcdCRD])
	probe := etcd(func(e *druidv1alpha1.Etcd) { e.Name, e.Spec.Replicas = "probe", 2 })
	Eventually(func() error { return client.IgnoreNotFound(c.Create(ctx, probe.DeepCopy(), client.DryRunAll)) }).
		Should(beRejected("spec.replicas must be"), "the CustomResourceDefinition of this module is effective again")
	Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())

	return object
}

// install replaces the spec of the CustomResourceDefinition and waits until the API server uses it.
func install(content string) {
	GinkgoHelper()
	wanted := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict([]byte(content), wanted)).To(Succeed())

	stored := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: wanted.Name}}
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
		wanted.Spec.DeepCopyInto(&stored.Spec)
		g.Expect(c.Update(ctx, stored)).To(Succeed())
	}).Should(Succeed())
}
