// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
)

var _ = Describe("The columns of kubectl get etcd", func() {
	// longest are the longest values that the columns have.
	longest := map[string]string{
		"Quorate": "Unknown", "All Ready": "Unknown", "Backup": "Unknown", "Reconciled": "OperationAnnotationMissing", "Age": "365d",
		"Cluster Size": "7", "Ready Replicas": "7", "All Members Updated": "Unknown", "Cluster ID Mismatch": "Unknown",
	}
	// width is that of a line, the name of the Etcd included.
	width := func(priority int32) int {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.UnmarshalStrict([]byte(crds.All()["etcds.druid.gardener.cloud"]), crd)).To(Succeed())
		width := len("etcd-events")
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			Expect(longest).To(HaveKey(column.Name))
			if column.Priority <= priority {
				width += len("   ") + max(len(column.Name), len(longest[column.Name]))
			}
		}

		return width
	}

	It("say what their names promise", func() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.UnmarshalStrict([]byte(crds.All()["etcds.druid.gardener.cloud"]), crd)).To(Succeed())
		paths := map[string]string{}
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			paths[column.Name] = column.JSONPath
		}
		Expect(paths).To(Equal(map[string]string{
			"Quorate":             `.status.conditions[?(@.type=="Ready")].status`,
			"All Ready":           `.status.conditions[?(@.type=="AllMembersReady")].status`,
			"Backup":              `.status.conditions[?(@.type=="BackupReady")].status`,
			"Reconciled":          `.status.conditions[?(@.type=="Reconciled")].reason`,
			"Age":                 `.metadata.creationTimestamp`,
			"Cluster Size":        `.spec.replicas`,
			"Ready Replicas":      `.status.readyReplicas`,
			"All Members Updated": `.status.conditions[?(@.type=="AllMembersUpdated")].status`,
			"Cluster ID Mismatch": `.status.conditions[?(@.type=="ClusterIDMismatch")].status`,
		}))
	})

	It("fit a terminal of 80 characters, and wide ones one of 160", func() {
		Expect(width(0)).To(BeNumerically("<=", 80))
		Expect(width(1)).To(And(BeNumerically("<=", 160), BeNumerically(">", width(0))))
	})
})
