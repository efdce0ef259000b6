// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"

	"github.com/gardener/gardener/pkg/controllerutils/routes"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
)

// profilingHandlers serve pprof. Profiles contain memory of the operator, which holds credentials. The API server therefore
// authenticates and authorizes each request: a user needs a token, and the permission get for the non-resource URL.
func profilingHandlers(config *rest.Config, log logr.Logger) (map[string]http.Handler, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("setting up the client of the authentication for pprof: %w", err)
	}
	filter, err := filters.WithAuthenticationAndAuthorization(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("setting up the authentication for pprof: %w", err)
	}
	handlers := make(map[string]http.Handler, len(routes.ProfilingHandlers))
	for path, handler := range routes.ProfilingHandlers {
		if handlers[path], err = filter(log.WithName("pprof"), handler); err != nil {
			return nil, fmt.Errorf("protecting %s: %w", path, err)
		}
	}
	return handlers, nil
}
