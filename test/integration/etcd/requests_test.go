// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"net/http"
	"regexp"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
)

var inNamespace = regexp.MustCompile(`/namespaces/([^/]+)/`)

// requests records the requests of the operator for namespaced objects.
type requests struct {
	mutex sync.Mutex
	// sent maps a namespace to methods and paths, oldest first.
	sent map[string][]string
}

// record returns a client configuration that records all requests.
func (r *requests) record(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if match := inNamespace.FindStringSubmatch(request.URL.Path); match != nil {
				r.add(match[1], request.Method+" "+request.URL.Path)
			}
			return next.RoundTrip(request)
		})
	})
	return config
}

func (r *requests) add(namespace, request string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.sent == nil {
		r.sent = map[string][]string{}
	}
	r.sent[namespace] = append(r.sent[namespace], request)
}

// in returns the requests for objects of a namespace, oldest first.
func (r *requests) in(namespace string) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.sent[namespace])
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
