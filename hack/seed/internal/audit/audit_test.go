// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/audit"
)

var _ = Describe("Writes", func() {
	const log = `{"stage":"ResponseComplete","verb":"patch","userAgent":"op","requestReceivedTimestamp":"2026-01-01T00:00:00.5Z","user":{"username":"sa"},"objectRef":{"resource":"etcds","apiGroup":"druid.gardener.cloud","subresource":"status"}}
{"stage":"ResponseComplete","verb":"update","userAgent":"op","requestReceivedTimestamp":"2026-01-01T00:01:00Z","user":{"username":"sa"},"objectRef":{"resource":"leases","apiGroup":"coordination.k8s.io"}}
{"stage":"ResponseComplete","verb":"update","userAgent":"op","requestReceivedTimestamp":"2026-01-01T00:01:01Z","user":{"username":"sa"},"objectRef":{"resource":"leases","apiGroup":"coordination.k8s.io"}}
{"stage":"ResponseComplete","verb":"create","userAgent":"kcm","requestReceivedTimestamp":"2026-01-01T00:01:02Z","user":{"username":"kcm"},"objectRef":{"resource":"pods"}}
{"stage":"ResponseStar`

	It("counts the writes since the given time, the most frequent first", func() {
		counts, err := audit.Writes(strings.NewReader(log), time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC))
		Expect(err).NotTo(HaveOccurred())
		Expect(counts).To(HaveExactElements(
			audit.Count{Writer: audit.Writer{User: "sa", Agent: "op", Verb: "update", Resource: "leases.coordination.k8s.io"}, Times: 2},
			audit.Count{Writer: audit.Writer{User: "kcm", Agent: "kcm", Verb: "create", Resource: "pods"}, Times: 1},
		))
	})

	It("distinguishes subresources", func() {
		counts, err := audit.Writes(strings.NewReader(log), time.Time{})
		Expect(err).NotTo(HaveOccurred())
		Expect(counts).To(ContainElement(HaveField("Resource", "etcds.druid.gardener.cloud/status")))
	})

	It("rejects a file that is not an audit log", func() {
		_, err := audit.Writes(strings.NewReader("hello\n"), time.Time{})
		Expect(err).To(MatchError(ContainSubstring("reading a line of the audit log")))
	})
})
