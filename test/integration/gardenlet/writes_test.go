// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardenlet_test

import (
	"net/http"
	"regexp"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
)

// etcdPath matches the path of an Etcd, but not of a subresource. The API server does not call the webhook for the status.
var etcdPath = regexp.MustCompile(`^/apis/druid\.gardener\.cloud/v1alpha1/namespaces/([^/]+)/etcds/[^/]+$`)

// writes records the responses of the API server to patches and updates of Etcds.
type writes struct {
	mutex sync.Mutex
	// responses maps a namespace to HTTP status codes, oldest first.
	responses map[string][]int
}

// recorded returns a client configuration that records all writes.
func (w *writes) recorded(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{writes: w, next: next} })
	return config
}

// in returns the HTTP status codes of the writes in a namespace, oldest first.
func (w *writes) in(namespace string) []int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.responses[namespace])
}

func (w *writes) add(namespace string, status int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.responses == nil {
		w.responses = map[string][]int{}
	}
	w.responses[namespace] = append(w.responses[namespace], status)
}

type recorder struct {
	writes *writes
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if path := etcdPath.FindStringSubmatch(request.URL.Path); err == nil && path != nil && (request.Method == http.MethodPatch || request.Method == http.MethodPut) {
		r.writes.add(path[1], response.StatusCode)
	}
	return response, err
}
