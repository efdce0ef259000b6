// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import "strings"

// globalDomains are the domains of providers whose containers have globally unique names. All endpoints below one of them reach the same
// containers, for example those of regions and private networks.
var globalDomains = []string{"amazonaws.com", "amazonaws.com.cn", "googleapis.com", "aliyuncs.com"}

// defaultServices is the end of the names of Services in the default domain of Kubernetes clusters.
const defaultServices = ".svc.cluster.local"

// canonicalEndpoint returns the same text for spellings that certainly name one endpoint. `name.namespace` and `name.namespace.svc` stay two
// endpoints, since the first one may be another host, for example example.com. So do Services with another domain, which may be that of
// another cluster. Otherwise the operator would not notice a change between them.
func canonicalEndpoint(endpoint string) string {
	host, rest := splitEndpoint(endpoint)
	host = strings.TrimSuffix(host, ".")
	for _, domain := range globalDomains {
		if !strings.HasPrefix(rest, "/") && (host == domain || strings.HasSuffix(host, "."+domain)) {
			return domain
		}
	}
	if service, isService := strings.CutSuffix(host, defaultServices); isService {
		host = service + ".svc"
	}

	return host + rest
}

// splitEndpoint splits an endpoint into its host and the rest: the port, the region of Swift, or a part of an IPv6 address.
func splitEndpoint(endpoint string) (host, rest string) {
	end := strings.IndexAny(endpoint, ":/")
	if end < 0 {
		end = len(endpoint)
	}

	return endpoint[:end], endpoint[end:]
}
