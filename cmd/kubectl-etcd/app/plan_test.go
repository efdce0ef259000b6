// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
)

// discovery maps the paths of an API server to what it returns.
var discovery = map[string]string{
	"/api": `{"kind": "APIVersions", "versions": []}`,
	"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "druid.gardener.cloud",
		"versions": [{"groupVersion": "druid.gardener.cloud/v1alpha1", "version": "v1alpha1"}],
		"preferredVersion": {"groupVersion": "druid.gardener.cloud/v1alpha1", "version": "v1alpha1"}}]}`,
	"/apis/druid.gardener.cloud/v1alpha1": `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "druid.gardener.cloud/v1alpha1",
		"resources": [{"name": "etcds", "singularName": "etcd", "kind": "Etcd", "namespaced": true, "verbs": ["get"]}]}`,
}

var _ = Describe("plan", func() {
	var requested []string

	// plan returns the exit code and what is said of a manifest, which no Etcd can be read for.
	decision := func(ctx SpecContext, metadata string, flags ...string) (int, string) {
		server := httptest.NewServer(http.HandlerFunc(func(k http.ResponseWriter, request *http.Request) {
			if result, found := discovery[request.URL.Path]; found {
				k.Header().Set("Content-Type", "application/json")
				_, _ = k.Write([]byte(result))

				return
			}
			requested = append(requested, request.URL.Path)
			k.WriteHeader(http.StatusForbidden)
		}))
		DeferCleanup(server.Close)
		out := &bytes.Buffer{}
		manifest := strings.NewReader("{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, metadata: " + metadata + "}")
		args := append([]string{"plan", "-f", "-", "--kubeconfig", "/dev/null", "--server", server.URL}, flags...)

		return app.Run(ctx, genericiooptions.IOStreams{In: manifest, Out: out, ErrOut: out}, args), out.String()
	}

	BeforeEach(func() { requested = nil })

	DescribeTable("reads the cluster in the namespace", func(ctx SpecContext, namespace, metadata string, flags ...string) {
		_, said := decision(ctx, metadata, flags...)
		Expect(requested).To(Equal([]string{"/apis/druid.gardener.cloud/v1alpha1/namespaces/" + namespace + "/etcds/main"}), said)
	},
		Entry("of the manifest", "demo", "{name: main, namespace: demo}"),
		Entry("of the manifest and of -n, where they are the same", "demo", "{name: main, namespace: demo}", "-n", "demo"),
		Entry("of -n, where the manifest has none", "other", "{name: main}", "-n", "other"),
		Entry("of the kubeconfig, where neither has one", "default", "{name: main}"),
	)

	It("does not choose between two namespaces", func(ctx SpecContext) {
		code, said := decision(ctx, "{name: main, namespace: demo}", "-n", "other")
		Expect(code).To(Equal(2))
		Expect(said).To(ContainSubstring("the manifest has the namespace demo, and -n says other"))
		Expect(requested).To(BeEmpty())
	})
})
