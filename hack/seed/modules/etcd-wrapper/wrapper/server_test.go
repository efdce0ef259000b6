// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestServerReportsReadinessAndStopsOnPostOnly(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	s := newServer(9095, stop)

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

func TestProbeReadsEachTwoSecondsForAtMostFive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 18*time.Second)
		defer cancel()

		s, start := newServer(9095, nil), time.Now()
		// The first read blocks, the second one takes 1.5 s, and the others take no time.
		delays := []time.Duration{time.Hour, 1500 * time.Millisecond}

		var starts []float64

		s.probe(ctx, func(attempt context.Context) error {
			starts = append(starts, time.Since(start).Seconds())

			if len(delays) == 0 {
				return nil
			}

			delay := delays[0]
			delays = delays[1:]

			select {
			case <-attempt.Done():
				return attempt.Err()
			case <-time.After(delay):
				return errors.New("no leader")
			}
		})

		if want := []float64{0, 5, 6.5, 8, 10, 12, 14, 16}; !slices.Equal(starts, want) && !slices.Equal(starts, append(want, 18)) {
			t.Errorf("reads start at %v, want %v", starts, want)
		}
	})
}

func TestProbeChangesTheReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		var fails atomic.Bool

		s := newServer(9095, nil)
		go s.probe(ctx, func(context.Context) error {
			if fails.Load() {
				return errors.New("no leader")
			}

			return nil
		})

		for _, failing := range []bool{false, true, false} {
			fails.Store(failing)
			time.Sleep(probePeriod)
			synctest.Wait()

			if ready := s.ready.Load(); ready == failing {
				t.Errorf("ready is %t, failing is %t", ready, failing)
			}
		}
	})
}

func TestTLSNeedsCertificateKeyAndCA(t *testing.T) {
	for paths, want := range map[Paths]bool{
		{Cert: "c", Key: "k", CA: "a"}: true,
		{Cert: "c", Key: "k"}:          false,
		{Cert: "c", CA: "a"}:           false,
		{Key: "k", CA: " "}:            false,
		{}:                             false,
	} {
		if got := paths.hasTLS(); got != want {
			t.Errorf("%+v: TLS is %t, want %t", paths, got, want)
		}
	}
}
