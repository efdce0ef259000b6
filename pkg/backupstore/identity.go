// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Identity says at which endpoint and in which account a container is. A store with the same provider, container and prefix is another one
// if its identity differs. It contains no secret values, and no access keys, because these are rotated.
type Identity struct {
	// Endpoint is the host of the store's API, with its port if that is not the default of the scheme. All endpoints of a provider with
	// globally unique containers are one: their common domain. Empty: unknown, or a Local store.
	Endpoint string
	// Account is the account or project. Empty: unknown, or the provider identifies a container without it.
	Account string
}

// Keys in the Secret of a store whose values are no secrets. etcd-backup-restore reads them.
const (
	// S3, OCS and ECS have an endpoint, S3 and Swift a region.
	keyEndpoint = "endpoint"
	keyRegion   = "region"
	// ABS has an account and the domain of its cloud.
	keyStorageAccount = "storageAccount"
	keyDomain         = "domain"
	// GCS has an endpoint, and a project if it uses workload identity.
	keyStorageAPIEndpoint = "storageAPIEndpoint"
	keyProject            = "projectID"
	// Swift has the endpoint of Keystone, and a tenant in a domain.
	keyAuthURL    = "authURL"
	keyDomainName = "domainName"
	keyTenantName = "tenantName"
	// OSS has an endpoint.
	keyStorageEndpoint = "storageEndpoint"
)

// Keys with the credentials of S3, OCS, ECS and OSS.
const (
	keyAccessKeyID     = "accessKeyID"
	keySecretAccessKey = "secretAccessKey" // #nosec G101 -- the name of a key
)

// keyServiceAccount is the file of the credentials of GCS, with the project in its JSON.
const keyServiceAccount = "serviceaccount.json"

var (
	publicKeys = []string{
		keyEndpoint, keyRegion, keyStorageAccount, keyDomain, keyStorageAPIEndpoint, keyProject, keyAuthURL, keyDomainName, keyTenantName, keyStorageEndpoint,
	}
	// endpointKeys are the keys whose values are URLs or hosts. A URL may contain user info, and only its host is kept.
	endpointKeys = []string{keyEndpoint, keyDomain, keyStorageAPIEndpoint, keyAuthURL, keyStorageEndpoint}
)

const (
	// maxPublicValue is the maximum length of a value, in bytes. Longer ones are unknown.
	maxPublicValue = 256
	// unknownValue is a value that is set and cannot be parsed.
	unknownValue = "?"
)

// PublicValues returns the values of a Secret that identify a store, and no secret values. If the Secret has a file in JSON, its values are
// there, as etcd-backup-restore reads it. Nil: that file cannot be parsed, so that nothing is known.
func PublicValues(data map[string][]byte) map[string]string {
	public := map[string]string{}
	read := func(key string) string { return string(data[key]) }
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !strings.HasSuffix(key, ".json") {
			continue
		}
		var file map[string]any
		isParsed := json.Unmarshal(data[key], &file) == nil
		if key == keyServiceAccount {
			if project := stringIn(file, "project_id"); project != "" {
				public[keyProject] = publicValue("", project)
			}

			continue
		}
		if !isParsed {
			return nil
		}
		read = func(key string) string { return stringIn(file, key) }

		break
	}
	for _, key := range publicKeys {
		if value := strings.TrimSpace(read(key)); value != "" && public[key] == "" {
			public[key] = publicValue(key, value)
		}
	}

	return public
}

// publicValue returns what is kept of a value of a Secret.
func publicValue(key, value string) string {
	if slices.Contains(endpointKeys, key) {
		value = hostOf(value)
	}
	if len(value) > maxPublicValue {
		value = ""
	}

	return cmp.Or(value, unknownValue)
}

func stringIn(file map[string]any, key string) string {
	value, _ := file[key].(string)

	return value
}

// hostOf returns the host of a URL or of an address without scheme, with its port if that is not the default of the scheme. Empty: it
// cannot be parsed.
func hostOf(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	parsed, err := url.Parse(endpoint)
	if err != nil || parsed.Hostname() == "" {
		return ""
	}
	host := strings.ToLower(strings.TrimSuffix(parsed.Host, ":"))
	switch parsed.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}

	return host
}

// IdentityOf returns the identity of a store for pods of a namespace. public are the PublicValues of its Secret. Nil: they are not known.
func IdentityOf(store Store, namespace string, public map[string]string) Identity {
	identity := identityOf(store, public)
	identity.Endpoint = qualify(canonicalEndpoint(identity.Endpoint), namespace)

	return identity
}

// qualify adds the namespace to the name of a Service without it, which is the name of other Services in other namespaces.
func qualify(host, namespace string) string {
	name, port, hasPort := strings.Cut(host, ":")
	if name == "" || strings.ContainsAny(name, "./[") {
		return host
	}
	if hasPort {
		port = ":" + port
	}

	return name + "." + namespace + port
}

func identityOf(store Store, public map[string]string) Identity {
	if store.Provider == ProviderLocal {
		return Identity{}
	}
	if store.SecretName == "" {
		public = map[string]string{}
	}
	if public == nil {
		if store.Provider == ProviderABS {
			return Identity{} // the host contains the account, which is not known
		}

		return Identity{Endpoint: hostOfOverride(store)}
	}
	value := func(key, fallback string) string {
		switch text := cmp.Or(public[key], fallback); text {
		case unknownValue:
			return ""
		default:
			return text
		}
	}
	var identity Identity
	switch store.Provider {
	case ProviderS3:
		identity.Endpoint = value(keyEndpoint, awsDomain(public[keyRegion]))
	case ProviderABS:
		identity = Identity{Endpoint: value(keyDomain, "blob.core.windows.net"), Account: value(keyStorageAccount, "")}
	case ProviderGCS:
		identity = Identity{Endpoint: value(keyStorageAPIEndpoint, "googleapis.com"), Account: value(keyProject, "")}
	case ProviderSwift:
		identity = Identity{Endpoint: join(value(keyAuthURL, ""), value(keyRegion, "")), Account: join(value(keyDomainName, ""), value(keyTenantName, ""))}
	case ProviderOSS:
		identity.Endpoint = value(keyStorageEndpoint, "")
	case ProviderECS, ProviderOCS:
		identity.Endpoint = value(keyEndpoint, "")
	}
	if store.EndpointOverride != "" && store.Provider.traits().overridable {
		identity.Endpoint = hostOfOverride(store)
	}
	if store.Provider == ProviderABS && identity.Account != "" {
		identity.Endpoint = strings.TrimPrefix(identity.Endpoint, identity.Account+".")
	}

	return identity
}

// hostOfOverride is the host of the endpoint in the spec. Empty: the spec has none, or the sidecar ignores it.
func hostOfOverride(store Store) string {
	if store.EndpointOverride == "" || !store.Provider.traits().overridable {
		return ""
	}

	return hostOf(store.EndpointOverride)
}

// awsDomain is the domain of the partition of AWS to which a region belongs.
func awsDomain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}

	return "amazonaws.com"
}

// join joins two values that identify only together.
func join(a, b string) string {
	if a == "" || b == "" {
		return ""
	}

	return a + "/" + b
}

// Or completes an identity with the values of another one that it does not know.
func (i Identity) Or(other Identity) Identity {
	return Identity{Endpoint: cmp.Or(i.Endpoint, other.Endpoint), Account: cmp.Or(i.Account, other.Account)}
}
