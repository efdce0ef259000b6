// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("RestoreDrill", func() {
	const annotation = "etcd-druid.extensions.gardener.cloud/restore-drill"
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	It("is in an annotation of its own, which the record of the etcd controller does not contain", func() {
		drills := state.RestoreDrill{
			Period: state.Duration(24 * time.Hour), Since: at,
			Last:   &state.DrillResult{Task: "task", Job: "job", EndedAt: at, Reason: "EventsMissing", Message: "a gap", Store: "store", Repeats: true},
			Proven: &state.DrillProof{ProvenAt: at, Store: "store", Snapshot: "Incr-1-9", Revision: 9, Hash: 3, RestoreTime: state.Duration(time.Second), MissingRevisions: 4},
		}
		text, err := drills.Marshal()
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring(`"period":"24h0m0s"`))
		decoded, err := state.Decode(map[string]string{annotation: text})
		Expect(err).NotTo(HaveOccurred())
		Expect(decoded.RestoreDrill).To(HaveValue(Equal(drills)))
		encoded, err := decoded.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(And(HaveLen(1), HaveKey("etcd-druid.extensions.gardener.cloud/state")))
		Expect(encoded).NotTo(ContainElement(ContainSubstring("EventsMissing")))
	})

	It("is empty if the annotation is missing or cannot be read", func() {
		for _, text := range []string{"", "{", `{"period":"soon"}`} {
			decoded, err := state.Decode(map[string]string{annotation: text})
			Expect(err).NotTo(HaveOccurred())
			Expect(decoded.RestoreDrill).To(BeNil(), text)
		}
	})
})
