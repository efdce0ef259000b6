// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/internal/sidecar"
)

// The module has the build list of the sidecar, so its tests use the standard library alone.

// fakeSidecar returns the statuses one after another, and then repeats the last one.
type fakeSidecar struct {
	lock     sync.Mutex
	statuses []string
	failures int
	requests []string
}

func (f *fakeSidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()

	f.requests = append(f.requests, r.URL.String())

	switch r.URL.Path {
	case "/initialization/status":
		_, _ = w.Write([]byte(f.statuses[0] + "\n"))
		if len(f.statuses) > 1 {
			f.statuses = f.statuses[1:]
		}
	case "/config":
		if f.failures > 0 {
			f.failures--
			w.WriteHeader(http.StatusInternalServerError)

			return
		}

		_, _ = w.Write([]byte("name: etcd-0\n"))
	}
}

func newClient(t *testing.T, handler http.Handler) *sidecar.Client {
	t.Helper()

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	client, err := sidecar.NewClient(sidecar.Options{HostPort: strings.TrimPrefix(server.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}

	return client
}

func TestInitializeStartsANewSidecarAndWaitsUntilItSucceeded(t *testing.T) {
	fake := &fakeSidecar{statuses: []string{"New", "Progress", "Successful"}}

	if err := sidecar.Initialize(t.Context(), newClient(t, fake), "sanity", time.Millisecond); err != nil {
		t.Fatal(err)
	}

	want := []string{"/initialization/status", "/initialization/start?mode=sanity", "/initialization/status", "/initialization/status"}
	if !slices.Equal(fake.requests, want) {
		t.Errorf("requests are %q, want %q", fake.requests, want)
	}
}

func TestInitializeStartsAgainAfterAFailure(t *testing.T) {
	fake := &fakeSidecar{statuses: []string{"New", "Failed", "New", "Successful"}}

	if err := sidecar.Initialize(t.Context(), newClient(t, fake), "full", time.Millisecond); err != nil {
		t.Fatal(err)
	}

	starts := 0
	for _, request := range fake.requests {
		if request == "/initialization/start?mode=full" {
			starts++
		}
	}

	if starts != 2 {
		t.Errorf("started %d times, want 2", starts)
	}
}

func TestInitializeEndsWithItsContext(t *testing.T) {
	reason := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)

	if err := sidecar.Initialize(ctx, newClient(t, &fakeSidecar{statuses: []string{"Progress"}}), "full", time.Hour); !errors.Is(err, reason) {
		t.Errorf("error is %v, want %v", err, reason)
	}
}

func TestFetchConfigTriesFiveTimes(t *testing.T) {
	config, err := sidecar.FetchConfig(t.Context(), newClient(t, &fakeSidecar{failures: 4}), time.Millisecond)
	if err != nil || string(config) != "name: etcd-0\n" {
		t.Errorf("four failures: got %q, %v", config, err)
	}

	if _, err := sidecar.FetchConfig(t.Context(), newClient(t, &fakeSidecar{failures: 5}), time.Millisecond); err == nil {
		t.Error("five failures: no error")
	}
}
