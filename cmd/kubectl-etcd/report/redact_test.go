// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
)

var _ = DescribeTable("Redactor replaces what is nested in a value of a Secret",
	func(value, text string) {
		redactor := report.NewRedactor([]corev1.Secret{{Data: map[string][]byte{"serviceaccount.json": []byte(value)}}})
		Expect(string(redactor.Redact([]byte(text)))).To(Equal("before REDACTED after"))
	},
	Entry("in JSON", `{"type": "service_account", "private_key_id": "0123456789abcdef"}`, "before 0123456789abcdef after"),
	Entry("in a list in JSON", `{"keys": [{"secret": "correct-horse"}]}`, "before correct-horse after"),
	Entry("in YAML", "password: correct-horse\nuser: operator", "before correct-horse after"),
	Entry("in one of its lines", `{"private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----\n"}`, "before MIIEvQIBADANBgkqhkiG after"),
	Entry("in base64", `{"token": "correct-horse"}`, "before Y29ycmVjdC1ob3JzZQ== after"),
)
