// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.etcd.io/etcd/pkg/transport"
)

func TestServerReportsReadinessAndStopsOnPostOnly(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())

	s, err := newServer(Options{ServerName: "etcd-local", ClientPort: 2379}, transport.TLSInfo{}, stop)
	if err != nil {
		t.Fatal(err)
	}

	request := func(method, path string) int {
		recorder := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))

		return recorder.Code
	}

	if code := request(http.MethodGet, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("before the first read: %d, want 503", code)
	}

	s.ready.Store(true)

	if code := request(http.MethodGet, "/readyz"); code != http.StatusOK {
		t.Errorf("after a read: %d, want 200", code)
	}

	if code := request(http.MethodGet, "/stop"); code != http.StatusOK || ctx.Err() != nil {
		t.Errorf("GET /stop: code %d, context %v; want 200 and no stop", code, ctx.Err())
	}

	if code := request(http.MethodPost, "/stop"); code != http.StatusOK || ctx.Err() == nil {
		t.Errorf("POST /stop: code %d, context %v; want 200 and a stop", code, ctx.Err())
	}
}
