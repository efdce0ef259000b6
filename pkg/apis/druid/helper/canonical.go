// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Canonical returns a deep copy of the Etcd with every deprecated field mapped to its current field and then cleared. Three
// deprecated fields have no current field and stay. They are spec.backup.snapstoreTempDir, spec.etcd.initialClusterToken and
// spec.etcd.pullPolicy. Each error names both fields. They have different values, or a deprecated field lacks another field
// that it depends on. With errors the copy is returned too, for names and status, but must not be rendered.
func Canonical(etcd *druidv1alpha1.Etcd) (*druidv1alpha1.Etcd, field.ErrorList) {
	canonical := etcd.DeepCopy()
	spec := &canonical.Spec

	m := &mapper{}
	m.checkLimits(spec)
	m.etcd(spec)
	m.backup(&spec.Backup)
	m.store(spec)
	m.tls(spec)

	return canonical, m.errs
}

// mapper collects the errors of the mapping.
type mapper struct{ errs field.ErrorList }

// fields are the paths of a deprecated field and of its current field.
type fields struct{ deprecated, current string }

func (m *mapper) etcd(spec *druidv1alpha1.EtcdSpec) {
	deprecated := &spec.Etcd.DeprecatedEtcdFields
	quantitiesEqual := func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }

	move(m, &deprecated.DeprecatedQuota, &spec.Etcd.Quota, fields{"spec.etcd.Quota", "spec.etcd.quota"}, quantitiesEqual)
	move(m, &deprecated.StorageCapacity, &spec.StorageCapacity, fields{"spec.etcd.storageCapacity", "spec.storageCapacity"}, quantitiesEqual)
	move(m, &deprecated.StorageClass, &spec.StorageClass, fields{"spec.etcd.storageClass", "spec.storageClass"}, equal[string])
	m.image(&deprecated.ImageRepository, &deprecated.ImageVersion, &spec.Etcd.Image, "spec.etcd")
	deprecated.InitialClusterState = nil
}

func (m *mapper) backup(backup *druidv1alpha1.BackupSpec) {
	deprecated := &backup.DeprecatedBackupFields
	m.image(&deprecated.ImageRepository, &deprecated.ImageVersion, &backup.Image, "spec.backup")
}

// image joins repository and version: with @ where the version is a digest alone, else with a colon. A digest after a tag stays.
func (m *mapper) image(repository, version, image **string, path string) {
	deprecatedPaths := path + ".imageRepository and " + path + ".imageVersion"
	switch {
	case *repository == nil && *version == nil:
		return
	case *repository == nil:
		m.errs = append(m.errs, field.Required(field.NewPath(path+".imageRepository"), fmt.Sprintf("%s.imageVersion is set, and means nothing without it: set both, or %s.image instead", path, path)))
		return
	case *version == nil:
		m.errs = append(m.errs, field.Required(field.NewPath(path+".imageVersion"), fmt.Sprintf("%s.imageRepository is set, and means nothing without it: set both, or %s.image instead", path, path)))
		return
	}

	separator := ":"
	if algorithm, _, found := strings.Cut(**version, ":"); found && !strings.Contains(algorithm, "@") {
		separator = "@"
	}
	joined := new(**repository + separator + **version)
	move(m, &joined, image, fields{deprecatedPaths, path + ".image"}, equal[string])
	*repository, *version = nil, nil
}

func (m *mapper) store(spec *druidv1alpha1.EtcdSpec) {
	deprecated := spec.Store
	spec.Store = nil
	if deprecated == nil || *deprecated == (druidv1alpha1.DeprecatedStoreFields{}) {
		return
	}
	if spec.Backup.Store == nil {
		spec.Backup.Store = &druidv1alpha1.StoreSpec{}
	}
	store := spec.Backup.Store

	move(m, &deprecated.StorageContainer, &store.Container, fields{"spec.store.storageContainer", "spec.backup.store.container"}, equal[string])
	move(m, &deprecated.StorageProvider, &store.Provider, fields{"spec.store.storageProvider", "spec.backup.store.provider"}, equal[druidv1alpha1.StorageProvider])
	m.moveString(deprecated.StorePrefix, &store.Prefix, "spec.store.storePrefix", "spec.backup.store.prefix")
	if deprecated.StoreSecret != nil {
		if store.SecretRef == nil {
			store.SecretRef = &corev1.SecretReference{}
		}
		m.moveString(deprecated.StoreSecret, &store.SecretRef.Name, "spec.store.storeSecret", "spec.backup.store.secretRef.name")
	}
}

// tls maps the two secret names onto references. The CA is the key ca.crt of the server's Secret.
func (m *mapper) tls(spec *druidv1alpha1.EtcdSpec) {
	server, client := spec.TLSServerSecret, spec.TLSClientSecret
	spec.TLSServerSecret, spec.TLSClientSecret = nil, nil
	if server == nil && client == nil {
		return
	}
	if spec.Etcd.ClientUrlTLS == nil {
		if server == nil {
			m.onlyClientSecret(spec)
			return
		}
		spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{}
	}
	tls := spec.Etcd.ClientUrlTLS

	if server != nil {
		if tls.TLSCASecretRef.Name == "" {
			tls.TLSCASecretRef.DataKey = new("ca.crt")
		}
		m.moveString(server, &tls.ServerTLSSecretRef.Name, "spec.tlsServerSecret", "spec.etcd.clientUrlTls.serverTLSSecretRef.name")
		m.moveString(server, &tls.TLSCASecretRef.Name, "spec.tlsServerSecret", "spec.etcd.clientUrlTls.tlsCASecretRef.name")
	}
	m.moveString(client, &tls.ClientTLSSecretRef.Name, "spec.tlsClientSecret", "spec.etcd.clientUrlTls.clientTLSSecretRef.name")
}

// onlyClientSecret adds an error for a client certificate without a server certificate, unless TLS is disabled.
func (m *mapper) onlyClientSecret(spec *druidv1alpha1.EtcdSpec) {
	if spec.Etcd.EnableTLS != nil && !*spec.Etcd.EnableTLS {
		return
	}
	m.errs = append(m.errs, field.Required(field.NewPath("spec.tlsServerSecret"), "spec.tlsClientSecret is set, and means nothing without it: set both, or spec.etcd.clientUrlTls instead"))
}

// moveString is move for a current field that is a plain string, where empty means unset.
func (m *mapper) moveString(deprecated, current *string, deprecatedPath, currentPath string) {
	pointer := current
	if *current == "" {
		pointer = nil
	}
	move(m, &deprecated, &pointer, fields{deprecatedPath, currentPath}, equal[string])
	if pointer != nil {
		*current = *pointer
	}
}

// move moves the value of the deprecated field to the current one. It adds an error if both are set and differ.
func move[T any](m *mapper, deprecated, current **T, at fields, equal func(T, T) bool) {
	switch {
	case *deprecated == nil:
		return
	case *current == nil:
		*current = *deprecated
	case !equal(**deprecated, **current):
		m.errs = append(m.errs, field.Invalid(field.NewPath(at.deprecated), **deprecated, fmt.Sprintf("differs from %s, which replaces it: remove %s", at.current, at.deprecated)))
	}
	*deprecated = nil
}

func equal[T comparable](a, b T) bool { return a == b }
