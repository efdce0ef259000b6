// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// Responses of etcd-backup-restore, derived from its own types.
const (
	fullResponse        = `{"kind":"Full","startRevision":0,"lastRevision":42,"createdOn":"2026-01-01T12:00:00Z","snapDir":"","snapName":"Full-00000000-00000042-1767268800.gz","isChunk":false,"prefix":"p/v2","compressionSuffix":".gz","isFinal":false,"immutabilityExpriyTime":"0001-01-01T00:00:00Z","versionID":null}`
	incrementalResponse = `{"kind":"Incr","startRevision":43,"lastRevision":50,"createdOn":"2026-01-01T12:01:00Z","snapDir":"","snapName":"Incr-00000043-00000050-1767268860.gz"}`
)

var _ = Describe("HTTP", func() {
	var (
		ctx      = context.Background()
		requests []string
		handler  http.HandlerFunc

		full = sidecar.Snapshot{
			Name: "Full-00000000-00000042-1767268800.gz", Kind: "Full", LastRevision: 42, CreatedAt: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
		}
		incr = sidecar.Snapshot{
			Name: "Incr-00000043-00000050-1767268860.gz", Kind: "Incr", StartRevision: 43, LastRevision: 50, CreatedAt: time.Date(2026, 1, 1, 12, 1, 0, 0, time.UTC),
		}
	)

	serve := func(start func(http.Handler) *httptest.Server) *httptest.Server {
		requests = nil
		server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests = append(requests, r.URL.String())
			handler(w, r)
		}))
		DeferCleanup(server.Close)

		return server
	}
	respondWith := func(status int, body string) {
		handler = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	connect := func(target sidecar.Target) sidecar.Client {
		GinkgoHelper()
		client, err := sidecar.HTTP{}.Connect(target)
		Expect(err).NotTo(HaveOccurred())

		return client
	}
	plain := func() sidecar.Client {
		GinkgoHelper()

		return connect(sidecar.Target{Address: serve(httptest.NewServer).Listener.Addr().String()})
	}

	It("takes a full snapshot that is not the final one", func() {
		respondWith(200, fullResponse)
		Expect(plain().FullSnapshot(ctx)).To(Equal(full))
		Expect(requests).To(Equal([]string{"/snapshot/full"}))
	})

	It("takes a final snapshot on request", func() {
		respondWith(200, strings.Replace(fullResponse, `"isFinal":false`, `"isFinal":true`, 1))
		snapshot, err := plain().FinalSnapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(snapshot.Final).To(BeTrue())
		Expect(requests).To(Equal([]string{"/snapshot/full?final=true"}))
	})

	It("takes a delta snapshot", func() {
		respondWith(200, incrementalResponse)
		Expect(plain().DeltaSnapshot(ctx)).To(Equal(&incr))
		Expect(requests).To(Equal([]string{"/snapshot/delta"}))
	})

	It("takes no delta snapshot if etcd has no new revision", func() {
		respondWith(200, "null")
		Expect(plain().DeltaSnapshot(ctx)).To(BeNil())
	})

	It("rejects a response without a full snapshot", func() {
		respondWith(200, "null")
		_, err := plain().FullSnapshot(ctx)
		Expect(err).To(MatchError(sidecar.ErrRefused))
	})

	It("reads the newest snapshots of the store", func() {
		respondWith(200, `{"fullSnapshot":`+fullResponse+`,"deltaSnapshots":[`+incrementalResponse+`]}`)
		latest, err := plain().LatestSnapshots(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(latest).To(Equal(sidecar.LatestSnapshots{Full: &full, LastDelta: &incr, DeltaCount: 1}))
		Expect(latest.LastRevision()).To(Equal(int64(50)))
	})

	DescribeTable("finds the snapshots that contain a revision",
		func(revision int64, final bool, full, whichever string) {
			latest := sidecar.LatestSnapshots{Full: &sidecar.Snapshot{Name: "full", LastRevision: 40, Final: final}, LastDelta: &sidecar.Snapshot{Name: "delta", LastRevision: 50}, DeltaCount: 1}
			name := func(snapshot *sidecar.Snapshot) string {
				if snapshot == nil {
					return ""
				}

				return snapshot.Name
			}
			Expect(name(latest.FullSince(revision, false))).To(Equal(full))
			Expect(name(latest.Since(revision))).To(Equal(whichever))
			Expect(latest.FullSince(40, true) != nil).To(Equal(final))
		},
		Entry("a full snapshot", int64(40), false, "full", "delta"),
		Entry("a full snapshot that is a final one", int64(40), true, "full", "delta"),
		Entry("only a delta snapshot", int64(41), false, "", "delta"),
		Entry("nothing", int64(51), false, "", ""),
	)

	It("finds nothing in an empty store", func() {
		Expect(sidecar.LatestSnapshots{}.Since(0)).To(BeNil())
		Expect(sidecar.LatestSnapshots{}.FullSince(0, false)).To(BeNil())
	})

	It("reads an empty store", func() {
		respondWith(200, `{"fullSnapshot":null,"deltaSnapshots":null}`)
		latest, err := plain().LatestSnapshots(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(latest.Full).To(BeNil())
		Expect(latest.LastRevision()).To(BeZero())
	})

	DescribeTable("distinguishes a sidecar that refuses from one that is unreachable",
		func(status int, body, message string) {
			respondWith(status, body)
			_, err := plain().FullSnapshot(ctx)
			Expect(err).To(MatchError(sidecar.ErrRefused))
			Expect(err).NotTo(MatchError(sidecar.ErrUnreachable))
			Expect(err).To(MatchError(message))
		},
		Entry("without a store", 405, "", "taking a full snapshot: sidecar refuses: it has no store, or does not reach the sidecar of the leader"),
		Entry("with a failing store", 500, "", "taking a full snapshot: sidecar refuses: HTTP 500"),
		Entry("with a reason", 400, "no", "taking a full snapshot: sidecar refuses: HTTP 400"),
		Entry("with a response that is not JSON", 200, "<html>", "taking a full snapshot: sidecar refuses: the response is not valid JSON"),
	)

	It("reports an unreachable sidecar without its address", func() {
		server := serve(httptest.NewServer)
		address := server.Listener.Addr().String()
		server.Close()
		_, err := connect(sidecar.Target{Address: address}).LatestSnapshots(ctx)
		Expect(err).To(MatchError(sidecar.ErrUnreachable))
		Expect(err.Error()).NotTo(ContainSubstring("http://"))
	})

	It("ends a call with its context", func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan struct{})
		handler = func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done(); close(ended) }
		client := plain()
		_, err := client.FullSnapshot(ctx)
		Expect(err).To(MatchError(sidecar.ErrUnreachable))
		Eventually(ended).Should(BeClosed())
	})

	Context("with TLS", func() {
		var (
			server *httptest.Server
			bundle []byte
		)

		BeforeEach(func() {
			respondWith(200, fullResponse)
			server = serve(httptest.NewTLSServer)
			bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		})

		It("verifies the server name, not the address", func() {
			client := connect(sidecar.Target{Address: server.Listener.Addr().String(), ServerName: "example.com", CA: bundle})
			Expect(client.FullSnapshot(ctx)).To(Equal(full))
		})

		It("does not send requests to a sidecar with another name", func() {
			client := connect(sidecar.Target{Address: server.Listener.Addr().String(), ServerName: "main-local", CA: bundle})
			_, err := client.FullSnapshot(ctx)
			Expect(err).To(MatchError(sidecar.ErrUnreachable))
			Expect(requests).To(BeEmpty())
		})

		It("does not connect with a bundle without certificates", func() {
			_, err := sidecar.HTTP{}.Connect(sidecar.Target{Address: "10.0.0.1:8080", CA: []byte("nothing")})
			Expect(err).To(MatchError("connecting to the sidecar at 10.0.0.1:8080: the CA bundle holds no certificate"))
		})
	})
})
