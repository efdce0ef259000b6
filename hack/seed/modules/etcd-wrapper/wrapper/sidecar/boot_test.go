// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper/sidecar/sidecartest"
)

// inMemory sends requests to a handler without a network, so that tests can use the clock of synctest. Nil means a server that never responds.
type inMemory struct{ handler http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.handler == nil {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}

	recorder := httptest.NewRecorder()
	m.handler.ServeHTTP(recorder, r)

	return recorder.Result(), nil
}

func newTestClient(t *testing.T, handler http.Handler) *Client {
	t.Helper()

	client, err := NewClient(Options{HostPort: "etcd-local:8080"})
	if err != nil {
		t.Fatal(err)
	}

	client.http.Transport = inMemory{handler}

	return client
}

func constant(mode string) func() string { return func() string { return mode } }

func TestInitializeStartsANewSidecarAndWaitsUntilItSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &sidecartest.Sidecar{Statuses: []string{StatusNew, "Progress", StatusSuccessful}}
		start := time.Now()

		if err := Initialize(t.Context(), newTestClient(t, fake), constant("sanity"), time.Second); err != nil {
			t.Fatal(err)
		}

		want := []string{"/initialization/status", "/initialization/start?mode=sanity", "/initialization/status", "/initialization/status"}
		if got := fake.Requests(); !slices.Equal(got, want) {
			t.Errorf("requests are %q, want %q", got, want)
		}

		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %s, want a second after each status, also after the last one", took)
		}
	})
}

func TestInitializeReadsTheModeBeforeEachStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &sidecartest.Sidecar{Statuses: []string{StatusNew, "Failed", StatusNew, StatusSuccessful}}
		modes := []string{"sanity", "full"}

		if err := Initialize(t.Context(), newTestClient(t, fake), func() string {
			mode := modes[0]
			modes = modes[1:]

			return mode
		}, time.Second); err != nil {
			t.Fatal(err)
		}

		starts := slices.DeleteFunc(fake.Requests(), func(request string) bool { return request == "/initialization/status" })
		if want := []string{"/initialization/start?mode=sanity", "/initialization/start?mode=full"}; !slices.Equal(starts, want) {
			t.Errorf("starts are %q, want %q", starts, want)
		}
	})
}

// Without a limit, also a response with other text or a failed request does not end the polling.
func TestInitializePollsUntilItsContextEnds(t *testing.T) {
	for name, handler := range map[string]http.Handler{
		"other text":   &sidecartest.Sidecar{Statuses: []string{"Successful\n"}},
		"no response":  nil,
		"other status": &sidecartest.Sidecar{Statuses: []string{StatusSuccessful}, Code: http.StatusNoContent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()

				if err := Initialize(ctx, newTestClient(t, handler), constant("full"), time.Minute); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error is %v", err)
				}
			})
		})
	}
}

func TestFetchConfigTriesFiveTimes(t *testing.T) {
	for failures, wantErr := range map[int]bool{4: false, 5: true} {
		synctest.Test(t, func(t *testing.T) {
			start, file := time.Now(), filepath.Join(t.TempDir(), "config")

			err := FetchConfig(t.Context(), newTestClient(t, &sidecartest.Sidecar{Config: "name: etcd-0\n", Failures: failures}), file, time.Second)
			if (err != nil) != wantErr {
				t.Errorf("%d failures: error is %v", failures, err)
			}

			if content, _ := os.ReadFile(file); !wantErr && string(content) != "name: etcd-0\n" {
				t.Errorf("file contains %q", content)
			}

			if took := time.Since(start); took != time.Duration(failures)*time.Second {
				t.Errorf("%d failures: took %s, want a second after each", failures, took)
			}
		})
	}
}

func TestFetchConfigEndsAfterFiveMinutesWithoutAResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()

		if err := FetchConfig(t.Context(), newTestClient(t, nil), filepath.Join(t.TempDir(), "config"), time.Second); err == nil {
			t.Error("no error")
		}

		if took := time.Since(start); took != 5*(time.Minute+time.Second) {
			t.Errorf("took %s, want 5 minutes and 5 seconds", took)
		}
	})
}

func TestRequestAcceptsThreeCodes(t *testing.T) {
	for code, accepted := range map[int]bool{200: true, 201: true, 202: true, 203: false, 204: false, 404: false, 500: false} {
		client := newTestClient(t, &sidecartest.Sidecar{Code: code})
		if _, err := client.Config(t.Context()); (err == nil) != accepted {
			t.Errorf("%d: error is %v", code, err)
		}
	}
}

// The request ends before its body is read. The rest of a body that the sidecar has not sent by then is lost.
func TestRequestFailsIfTheBodyArrivesInParts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("name: "))
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the server notices that the client closed the connection
	}))
	defer server.Close()

	client, err := NewClient(Options{HostPort: strings.TrimPrefix(server.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := client.Config(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
}

func TestClientRefusesIncompleteOptions(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(bundle, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}

	for options, accepted := range map[Options]bool{
		{HostPort: "etcd-local:8080"}:                                          true,
		{HostPort: ":8080"}:                                                    true,
		{HostPort: "etcd-local"}:                                               false,
		{HostPort: "https://etcd-local:8080"}:                                  false,
		{HostPort: "etcd-local:8080", TLS: true}:                               false,
		{HostPort: "etcd-local:8080", TLS: true, CAFile: bundle + "-missing"}:  false,
		{HostPort: "etcd-local:8080", TLS: true, CAFile: bundle}:               true,
		{HostPort: "etcd-local:8080", TLS: false, CAFile: bundle + "-missing"}: true,
	} {
		if _, err := NewClient(options); (err == nil) != accepted {
			t.Errorf("%+v: error is %v", options, err)
		}
	}
}

func TestServerNameIsTheTextBeforeTheFirstColon(t *testing.T) {
	for hostPort, want := range map[string]string{"etcd-local:8080": "etcd-local", ":8080": "localhost", "[::1]:8080": "["} {
		if got := (Options{HostPort: hostPort}).serverName(); got != want {
			t.Errorf("%s: name is %q, want %q", hostPort, got, want)
		}
	}
}
