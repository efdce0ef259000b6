// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// Path is the path of the metrics.
	Path = "/metrics"
	// cachePeriod is how long a collection is served.
	cachePeriod = 5 * time.Second
	// writeTimeout is how long a client may take to read a response. Until then, its collection stays in memory.
	writeTimeout = 10 * time.Second
)

// Cached returns a handler that collects the metrics of another handler once at a time, and serves each collection for five seconds. Any pod can
// request the metrics, and a collection needs megabytes on a seed with a thousand Etcds. All clients get all metrics in the text format: otherwise
// a request for a few of them would hide the others. The handler serves other paths without a cache.
func Cached(handler http.Handler, clock clock.PassiveClock) http.Handler {
	return &cached{handler: handler, clock: clock, collections: map[string]*collection{}}
}

type cached struct {
	handler http.Handler
	clock   clock.PassiveClock

	lock sync.Mutex
	// collections are the last ones by their encoding.
	collections map[string]*collection
}

// collection is a response of the handler. It implements http.ResponseWriter.
type collection struct {
	at     time.Time
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (c *collection) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (c *collection) WriteHeader(status int) { c.status = status }

// Write implements http.ResponseWriter.
func (c *collection) Write(data []byte) (int, error) { return c.body.Write(data) }

// ServeHTTP implements http.Handler.
func (c *cached) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	if request.URL.Path != Path {
		c.handler.ServeHTTP(response, request)

		return
	}
	encoding := ""
	if strings.Contains(request.Header.Get("Accept-Encoding"), "gzip") {
		encoding = "gzip"
	}
	current := c.collect(request, encoding)
	// Writers without deadlines, for example of tests, need none.
	_ = http.NewResponseController(response).SetWriteDeadline(time.Now().Add(writeTimeout))
	maps.Copy(response.Header(), current.header)
	response.WriteHeader(current.status)
	_, _ = response.Write(current.body.Bytes()) // the client has closed the connection
}

// collect returns the last collection, or a new one if that is too old.
func (c *cached) collect(request *http.Request, encoding string) *collection {
	c.lock.Lock()
	defer c.lock.Unlock()
	if last := c.collections[encoding]; last != nil && c.clock.Since(last.at) < cachePeriod {
		return last
	}
	// The client may close the connection, and others wait for the collection. Nothing of its request selects the metrics.
	same := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: Path}, Header: http.Header{}, Body: http.NoBody}
	if encoding != "" {
		same.Header.Set("Accept-Encoding", encoding)
	}
	current := &collection{header: http.Header{}, status: http.StatusOK}
	c.handler.ServeHTTP(current, same.WithContext(context.WithoutCancel(request.Context())))
	current.at = c.clock.Now()
	c.collections[encoding] = current

	return current
}
