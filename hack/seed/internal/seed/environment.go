// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

// setEnvironment changes the environment of this process and of the processes that it starts.
func setEnvironment(cluster layout.Cluster) error {
	// The PATH of a root shell from `su` without a dash lacks the directories of ip and containerd's helpers.
	errs := []error{os.Setenv("PATH", extend(os.Getenv("PATH"), string(os.PathListSeparator), "/usr/sbin", "/sbin"))}

	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if os.Getenv(name) != "" {
			// A proxy cannot reach the networks of the cluster.
			errs = append(errs, os.Setenv("NO_PROXY", noProxy(cluster)))
			break
		}
	}

	return errors.Join(errs...)
}

func noProxy(cluster layout.Cluster) string {
	current := os.Getenv("NO_PROXY")
	if current == "" {
		current = os.Getenv("no_proxy")
	}

	networks := []string{"localhost", "127.0.0.1", cluster.NodeCIDR(), cluster.PodCIDR(), cluster.ServiceCIDR()}
	if cluster == layout.Shoots {
		networks = append(networks, layout.Garden.NodeCIDR()) // its API server is a process of this machine
	}

	return extend(current, ",", networks...)
}

// extend appends the entries that the list does not contain.
func extend(list, separator string, entries ...string) string {
	var all []string
	if list != "" {
		all = strings.Split(list, separator)
	}

	for _, entry := range entries {
		if !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}

	return strings.Join(all, separator)
}
