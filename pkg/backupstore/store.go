// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
)

// DefaultHostPath is the directory of the node that contains the folders of Local stores if their Secret names none.
const DefaultHostPath = "/etc/gardener/local-backupbuckets"

// KeyHostPath is the key in the Secret of a Local store whose value replaces DefaultHostPath.
const KeyHostPath = "hostPath"

// Store is the complete location of snapshots, with the values that the Etcd omits.
type Store struct {
	// Provider is the type of the store.
	Provider Provider
	// Container is the bucket or container. For the provider Local it is the folder below HostPath. Never empty.
	Container string
	// Prefix is the path in the container. Never empty.
	Prefix string
	// EndpointOverride is the URL of the store. Empty: the default of the provider, or the URL in the credentials.
	EndpointOverride string
	// SecretName is the Secret with the credentials. Empty: the identity that the infrastructure gives to the pod.
	SecretName string
	// HostPath is the directory of the node that contains the folder Container. Only for Local. Empty: DefaultHostPath.
	HostPath string
	// Identity says whose store it is. Zero: unknown. Members do not need it.
	Identity Identity
}

// FromSpec returns the store of a complete spec. An empty prefix becomes `<namespace>/<name>` of the Etcd. HostPath stays
// empty, since the Secret contains it. Each error names the field below path, and the remedy.
func FromSpec(spec druidv1alpha1.StoreSpec, namespace, name string, path *field.Path) (Store, field.ErrorList) {
	store := Store{
		Container:        ptr.Deref(spec.Container, ""),
		Prefix:           spec.Prefix,
		EndpointOverride: ptr.Deref(spec.EndpointOverride, ""),
	}
	if store.Prefix == "" {
		store.Prefix = namespace + "/" + name
	}
	if spec.SecretRef != nil {
		store.SecretName = spec.SecretRef.Name
	}

	provider := ptr.Deref(spec.Provider, "")
	if provider == "" {
		return store, field.ErrorList{field.Required(path.Child("provider"), "the kind of the object store is not known otherwise: set one of "+knownNames())}
	}
	var ok bool
	if store.Provider, ok = Canonical(provider); !ok {
		return store, field.ErrorList{field.Invalid(path.Child("provider"), provider, "is no object store: set one of "+knownNames())}
	}

	return store, store.validate(path)
}

// validate returns an error for each setting with which the sidecar does not start or does not keep snapshots.
func (s Store) validate(path *field.Path) field.ErrorList {
	errs := validation.ValidateStoreEndpoint(&s.EndpointOverride, path)

	if s.Container == "" {
		errs = append(errs, field.Required(path.Child("container"), "set the name of the bucket, of the container or, with the provider Local, of the directory"))
	}
	if s.SecretName == "" && !s.Provider.traits().ambient {
		errs = append(errs, field.Required(path.Child("secretRef"), fmt.Sprintf("set a Secret: the store %s cannot be reached by an identity of the infrastructure", s.Provider)))
	}

	return errs
}
