// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// connectTo returns a client of a sidecar that uses the handler.
func connectTo(handler http.HandlerFunc) sidecar.Client {
	GinkgoHelper()
	server := httptest.NewServer(handler)
	DeferCleanup(server.Close)
	client, err := sidecar.HTTP{}.Connect(sidecar.Target{Address: server.Listener.Addr().String()})
	Expect(err).NotTo(HaveOccurred())

	return client
}

var _ = Describe("A hostile sidecar", func() {
	It("cannot redirect the operator", func(ctx SpecContext) {
		var reached atomic.Bool
		victim := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reached.Store(true)
			_, _ = w.Write([]byte(fullResponse))
		}))
		DeferCleanup(victim.Close)
		client := connectTo(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, victim.URL, http.StatusFound) })

		_, err := client.FullSnapshot(ctx)
		Expect(reached.Load()).To(BeFalse(), "the operator followed the redirect")
		Expect(err).To(And(MatchError(sidecar.ErrRefused), MatchError("taking a full snapshot: sidecar refuses: HTTP 302, and redirects are not followed")))
	})

	DescribeTable("does not get its response body into an error",
		func(ctx SpecContext, status int, body, message string) {
			client := connectTo(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
			})
			_, err := client.FullSnapshot(ctx)
			Expect(err).To(MatchError(message))
		},
		Entry("a secret in an error", 500, "AKIASECRET\x1b[2J", "taking a full snapshot: sidecar refuses: HTTP 500"),
		Entry("a secret instead of JSON", 200, "secretaccesskey", "taking a full snapshot: sidecar refuses: the response is not valid JSON"),
		Entry("a value of another type", 200, `{"lastRevision":"secretaccesskey"}`, "taking a full snapshot: sidecar refuses: the response is not valid JSON"),
		Entry("terminal escapes in a name", 200, `{"kind":"Full","snapName":"Full-\u001b[2J"}`, "taking a full snapshot: sidecar refuses: the response names a snapshot with a name that is too long or not printable"),
		Entry("an endless name", 200, `{"kind":"Full","snapName":"`+strings.Repeat("x", 5000)+`"}`, "taking a full snapshot: sidecar refuses: the response names a snapshot with a name that is too long or not printable"),
		Entry("data after the JSON", 200, fullResponse+"secretaccesskey", "taking a full snapshot: sidecar refuses: the response is not valid JSON"),
	)

	It("cannot fill the memory of the operator with a list of snapshots", func(ctx SpecContext) {
		const chunk = 1000
		deltas := strings.Repeat(incrementalResponse+",", chunk)
		var sent atomic.Int64
		client := connectTo(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"fullSnapshot":%s,"deltaSnapshots":[`, fullResponse)
			for {
				written, err := w.Write([]byte(deltas))
				if sent.Add(int64(written)); err != nil {
					return
				}
			}
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := client.LatestSnapshots(ctx)
		runtime.ReadMemStats(&after)
		Expect(err).To(And(MatchError(sidecar.ErrRefused), MatchError("reading the newest snapshots: sidecar refuses: the response is too large")))
		Expect(after.HeapAlloc).To(BeNumerically("<", before.HeapAlloc+32<<20), "the heap increased from %d to %d bytes", before.HeapAlloc, after.HeapAlloc)
	})

	It("cannot send endless headers", func(ctx SpecContext) {
		client := connectTo(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Padding", strings.Repeat("x", 512<<10))
			_, _ = w.Write([]byte(fullResponse))
		})
		_, err := client.FullSnapshot(ctx)
		Expect(err).To(MatchError("taking a full snapshot: sidecar does not answer: the response is too large"))
	})

	It("cannot keep a call open beyond its context by sending single bytes", func(ctx SpecContext) {
		client := connectTo(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Millisecond):
				}
			}
		})
		limited, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := client.FullSnapshot(limited)
		Expect(err).To(And(MatchError(sidecar.ErrUnreachable), MatchError("taking a full snapshot: sidecar does not answer: timeout")))
	})
})
