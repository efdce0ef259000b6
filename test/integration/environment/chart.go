// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"strings"

	"github.com/gardener/gardener/pkg/chartrenderer"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/charts"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
)

// InstallChart applies the chart, waits until its roles and policies are effective, and returns the content of the operator's
// configuration file. No operator may run meanwhile.
func (e *Environment) InstallChart(ctx context.Context, namespace string, values map[string]any) string {
	GinkgoHelper()

	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.35.0"}).
		RenderEmbeddedFS(charts.Operator, charts.Path, "release", namespace, values)
	Expect(err).NotTo(HaveOccurred())

	for _, manifest := range rendered.Manifests {
		for document := range strings.SplitSeq("\n"+manifest.Content, "\n---\n") {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())

			if len(object.Object) == 0 {
				continue
			}

			Expect(e.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, client.FieldOwner("helm"))).To(Succeed(), document)
		}
	}

	watched := ""
	if namespaces, _ := values["watchNamespaces"].([]any); len(namespaces) > 0 {
		watched = namespaces[0].(string)
	}
	e.AwaitTrust(ctx, namespace, app.Name, watched)

	config := &corev1.ConfigMap{}
	Expect(e.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: app.Name + "-config"}, config)).To(Succeed())

	return config.Data["config.yaml"]
}

// ConfigOf returns a client configuration that impersonates a user of these groups with all permissions.
func (e *Environment) ConfigOf(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:masters")}

	return config
}

// ClientOf returns a client that impersonates a user of these groups with all permissions.
func (e *Environment) ClientOf(user string, groups ...string) client.Client {
	GinkgoHelper()

	impersonating, err := client.New(e.ConfigOf(user, groups...), client.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())

	return impersonating
}

// Controllers returns a client for simulated controllers. It impersonates the service account of the StatefulSet controller.
func (e *Environment) Controllers() client.Client {
	GinkgoHelper()

	return e.ClientOf("system:serviceaccount:kube-system:statefulset-controller", "system:serviceaccounts", "system:serviceaccounts:kube-system")
}
