// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"slices"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Provider is the type of an object store, with the name that etcd-backup-restore uses.
type Provider string

// The supported providers.
const (
	ProviderS3    Provider = "S3"
	ProviderABS   Provider = "ABS"
	ProviderGCS   Provider = "GCS"
	ProviderSwift Provider = "Swift"
	ProviderOSS   Provider = "OSS"
	ProviderECS   Provider = "ECS"
	ProviderOCS   Provider = "OCS"
	ProviderLocal Provider = "Local"
)

// names are the provider names that the API accepts. They are case-sensitive.
var names = map[druidv1alpha1.StorageProvider]Provider{
	"aws": ProviderS3, "stackit": ProviderS3, "S3": ProviderS3, "s3": ProviderS3,
	"azure": ProviderABS, "ABS": ProviderABS, "abs": ProviderABS,
	"gcp": ProviderGCS, "GCS": ProviderGCS, "gcs": ProviderGCS,
	"openstack": ProviderSwift, "Swift": ProviderSwift, "swift": ProviderSwift,
	"alicloud": ProviderOSS, "OSS": ProviderOSS, "oss": ProviderOSS,
	"dell": ProviderECS, "ECS": ProviderECS, "ecs": ProviderECS,
	"openshift": ProviderOCS, "OCS": ProviderOCS, "ocs": ProviderOCS,
	"Local": ProviderLocal, "local": ProviderLocal,
}

// Canonical returns the provider for a name of the API, and false for an unknown name.
func Canonical(name druidv1alpha1.StorageProvider) (Provider, bool) {
	provider, ok := names[name]

	return provider, ok
}

// knownNames lists the names that the API accepts, for messages.
func knownNames() string {
	known := make([]string, 0, len(names))
	for name := range names {
		known = append(known, string(name))
	}
	slices.Sort(known)

	return strings.Join(known, ", ")
}

// traits are the properties in which providers differ.
type traits struct {
	// credentials is the name of the environment variable with the path of the credentials, without the prefix of the side.
	// Empty: there is none.
	credentials string
	// credentialsFile is the file in the mount to which the variable refers. Empty: the variable refers to the mount.
	credentialsFile string
	// ambient is true if the sidecar can use an identity that the infrastructure gives to the pod.
	ambient bool
	// overridable is true if the sidecar uses the endpoint in the spec. With other providers it ignores the flag.
	overridable bool
	// keys are environment variables with the keys of the Secret from which they are set. They have no prefix on either side:
	// etcd-backup-restore supports one set, which must be valid for both stores of a copy. Nil: the Secret is mounted.
	keys []environmentKey
	// values are the keys of the Secret whose values the sidecar uses as they are. Certificates and files in JSON are not among them, since white space
	// around them has no effect.
	values []string
}

type environmentKey struct{ variable, key string }

func (p Provider) traits() traits {
	switch p {
	case ProviderS3:
		return traits{credentials: "AWS_APPLICATION_CREDENTIALS", ambient: true, overridable: true, values: []string{ // #nosec G101 -- the name of an environment variable
			keyAccessKeyID, keySecretAccessKey, keyRegion, keyEndpoint, "s3ForcePathStyle", "insecureSkipVerify", "sseCustomerKey", "sseCustomerAlgorithm",
			"roleARN", "requestChecksumCalculation", "responseChecksumValidation",
		}}
	case ProviderABS:
		return traits{credentials: "AZURE_APPLICATION_CREDENTIALS", overridable: true, values: []string{keyStorageAccount, "storageKey", keyDomain}} // #nosec G101 -- the name of an environment variable
	case ProviderGCS:
		return traits{credentials: "GOOGLE_APPLICATION_CREDENTIALS", credentialsFile: keyServiceAccount, ambient: true, overridable: true, values: []string{keyStorageAPIEndpoint}} // #nosec G101 -- the name of an environment variable
	case ProviderSwift:
		return traits{credentials: "OPENSTACK_APPLICATION_CREDENTIALS", values: []string{ // #nosec G101 -- the name of an environment variable
			keyAuthURL, keyDomainName, keyTenantName, keyRegion, "username", "password", "applicationCredentialID", "applicationCredentialName",
			"applicationCredentialSecret",
		}}
	case ProviderOSS:
		return traits{credentials: "ALICLOUD_APPLICATION_CREDENTIALS", values: []string{keyStorageEndpoint, keyAccessKeyID, "accessKeySecret"}} // #nosec G101 -- the name of an environment variable
	case ProviderOCS:
		return traits{credentials: "OPENSHIFT_APPLICATION_CREDENTIALS", values: []string{ // #nosec G101 -- the name of an environment variable
			keyEndpoint, keyAccessKeyID, keySecretAccessKey, keyRegion, "disableSSL", "insecureSkipVerify",
		}}
	case ProviderECS:
		return traits{
			keys:   []environmentKey{{"ECS_ENDPOINT", keyEndpoint}, {"ECS_ACCESS_KEY_ID", keyAccessKeyID}, {"ECS_SECRET_ACCESS_KEY", keySecretAccessKey}},
			values: []string{keyEndpoint, keyAccessKeyID, keySecretAccessKey},
		}
	default: // ProviderLocal
		return traits{ambient: true}
	}
}
