// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package sidecartest contains a fake of etcd-backup-restore's HTTP API.
package sidecartest

import (
	"net/http"
	"slices"
	"sync"
)

// Sidecar is a fake sidecar. It must have at least one status. Its fields must not change after the first request.
type Sidecar struct {
	// Statuses are returned one after another. The last one is repeated.
	Statuses []string
	// Config is the configuration that /config returns.
	Config string
	// Failures is the number of requests for the configuration that fail before one succeeds.
	Failures int
	// Code is the status code of successful responses. 0 means 200.
	Code int

	lock     sync.Mutex
	requests []string
}

// Requests returns the URLs of all requests until now.
func (s *Sidecar) Requests() []string {
	s.lock.Lock()
	defer s.lock.Unlock()

	return slices.Clone(s.requests)
}

// ServeHTTP implements http.Handler.
func (s *Sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.lock.Lock()
	defer s.lock.Unlock()

	s.requests = append(s.requests, r.URL.RequestURI())
	code, body := http.StatusOK, ""

	if s.Code != 0 {
		code = s.Code
	}

	switch r.URL.Path {
	case "/initialization/status":
		body = s.Statuses[0]
		if len(s.Statuses) > 1 {
			s.Statuses = s.Statuses[1:]
		}
	case "/config":
		body = s.Config

		if s.Failures > 0 {
			s.Failures--
			code = http.StatusInternalServerError
		}
	}

	w.WriteHeader(code)
	_, _ = w.Write([]byte(body))
}
