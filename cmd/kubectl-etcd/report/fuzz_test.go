// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
)

// FuzzRedact checks that no value of a store Secret stays in a text, wherever the text contains it.
func FuzzRedact(f *testing.F) {
	f.Add([]byte("correct-horse"), "before ", " after")
	f.Add([]byte(`{"private_key": "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n"}`), "", "")
	f.Add([]byte("user: &a [*a]\npassword: correct-horse"), "\n", "\x00")
	f.Add([]byte("REDACTEDREDACTED"), "RED", "ACTED")
	f.Add([]byte("correct-horse"), "corREDACTEDrect-horse", "")
	f.Fuzz(func(t *testing.T, value []byte, before, after string) {
		const shortest = 8
		redactor := report.NewRedactor([]corev1.Secret{{Data: map[string][]byte{"key": value}}})
		redacted := redactor.Redact([]byte(before + string(value) + after))
		hasValue := func(part []byte) bool { return bytes.Contains(part, value) }
		if len(value) >= shortest && slices.ContainsFunc(bytes.Split(redacted, []byte("REDACTED")), hasValue) {
			t.Errorf("%q stays in %q", value, redacted)
		}
	})
}
