// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// exportLine matches a shell line that exports a variable. The line may append the previous value of the variable.
var exportLine = regexp.MustCompile(`^export (\w+)="([^"]*)"(?:"\$\w+")?$`)

// StartBareCluster starts another cluster next to the seed, without Gardener and without the operator. Its nodes already have
// the images. The environment variable VALUES is the path of the file with the values of the operator's chart. The cleanup
// deletes the cluster even if the test fails.
func (f *Framework) StartBareCluster(ctx context.Context) *Framework {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) { f.seed(ctx, "bare", "down") }, NodeTimeout(5*time.Minute))
	f.seed(ctx, "bare", "down") // the cluster of an interrupted run
	_, _ = GinkgoWriter.Write([]byte(f.seed(ctx, "bare", "up")))

	bare := &Framework{Capabilities: f.Capabilities, environment: os.Environ(), operatorNamespace: "etcd-druid"} // the namespace of the tutorial
	exported := map[string]string{}

	for line := range strings.Lines(f.seed(ctx, "bare", "env")) {
		if match := exportLine.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			exported[match[1]] = match[2]
		}
	}

	for name, value := range exported {
		if name == "PATH" {
			value += os.Getenv(name)
		}

		bare.environment = append(bare.environment, name+"="+value)
	}

	bare.AuditLog, bare.LocalStore = exported["SEED_AUDIT_LOG"], exported["SEED_LOCAL_STORE"]
	Expect(exported["VALUES"]).To(BeARegularFile())
	Expect(bare.connect(exported["KUBECONFIG"])).To(Succeed())

	return bare
}

// CustomResourceDefinitions returns the names of the CustomResourceDefinitions of the cluster.
func (f *Framework) CustomResourceDefinitions(ctx context.Context) []string {
	GinkgoHelper()

	return f.names(ctx, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
}

// ValidatingWebhooks returns the names of the ValidatingWebhookConfigurations of the cluster.
func (f *Framework) ValidatingWebhooks(ctx context.Context) []string {
	GinkgoHelper()

	return f.names(ctx, admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
}

func (f *Framework) names(ctx context.Context, kind schema.GroupVersionKind) []string {
	GinkgoHelper()

	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	Expect(f.Client.List(ctx, list)).To(Succeed())

	names := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		names = append(names, item.Name)
	}

	return names
}
