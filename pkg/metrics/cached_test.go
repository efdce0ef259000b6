// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/metrics"
)

var _ = Describe("Cached", func() {
	var (
		clock       *testclock.FakeClock
		collections int
		handler     http.Handler
	)
	BeforeEach(func() {
		clock, collections = testclock.NewFakeClock(time.Now()), 0
		handler = metrics.Cached(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			collections++ // the race detector finds concurrent collections
			w.Header().Set("Content-Type", "text/plain")
			_, _ = fmt.Fprintf(w, "collection %d%s%s%s", collections, r.Header.Get("Accept-Encoding"), r.Header.Get("Accept"), r.URL.RawQuery)
		}), clock)
	})
	get := func(path string, header map[string]string) *httptest.ResponseRecorder {
		request, response := httptest.NewRequest(http.MethodGet, path, http.NoBody), httptest.NewRecorder()
		for key, value := range header {
			request.Header.Set(key, value)
		}
		handler.ServeHTTP(response, request)

		return response
	}

	It("collects once for concurrent requests, and again after five seconds", func() {
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() { get("/metrics", nil) })
		}
		group.Wait()
		Expect(get("/metrics", nil)).To(And(HaveField("Code", http.StatusOK), HaveField("Body.String()", "collection 1")))
		Expect(get("/metrics", nil).Header().Get("Content-Type")).To(Equal("text/plain"))
		clock.Step(5 * time.Second)
		Expect(get("/metrics", nil).Body.String()).To(Equal("collection 2"))
	})

	It("collects once for each encoding, whatever else a client accepts", func() {
		for i := range 10 {
			accepted := fmt.Sprintf("application/openmetrics-text; version=%d", i)
			Expect(get("/metrics", map[string]string{"Accept": accepted}).Body.String()).To(Equal("collection 1"))
			Expect(get("/metrics", map[string]string{"Accept": accepted, "Accept-Encoding": "deflate, gzip"}).Body.String()).To(Equal("collection 2gzip"))
		}
	})

	It("collects all metrics, also if a client requests some", func() {
		Expect(get("/metrics?name[]=x", nil).Body.String()).To(Equal("collection 1"))
		Expect(get("/metrics", nil).Body.String()).To(Equal("collection 1"))
	})

	It("serves the other paths of the server as they are", func() {
		get("/debug/pprof/", nil)
		Expect(get("/debug/pprof/", map[string]string{"Accept": "x"}).Body.String()).To(Equal("collection 2x"))
	})
})
