// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
)

var _ = DescribeTable("The CustomResourceDefinition explains a refusal in a sentence, without an expression and without credentials",
	func(store map[string]any, message string) {
		schema, err := crdschema.New(crds.All()["etcds.druid.gardener.cloud"])
		Expect(err).NotTo(HaveOccurred())
		store["prefix"] = "p"
		errs := schema.Create(etcdWith(map[string]any{}, map[string]any{"store": store}))
		Expect(errs).To(HaveLen(1))
		Expect(errs[0].Error()).To(And(ContainSubstring(message), Not(ContainSubstring("a-zA-Z")), Not(ContainSubstring("hunter2"))))
	},
	Entry("a container below three characters", map[string]any{"container": "ab"},
		"spec.backup.store.container: Invalid value: \"ab\": must have 3 to 63 characters: letters, digits, dots, dashes and underscores, with a letter or a digit at both ends"),
	Entry("an empty container", map[string]any{"container": ""}, "must have 3 to 63 characters"),
	Entry("user info in an endpoint", map[string]any{"endpointOverride": "https://user:hunter2@s3.example.com"},
		"must not have user info: remove what is before the @ of the host, and put credentials into the Secret in secretRef"),
	Entry("user info in an endpoint without scheme", map[string]any{"endpointOverride": "user:hunter2@s3.example.com//x"},
		"must not have user info: remove what is before the @ of the host, and put credentials into the Secret in secretRef"),
)
