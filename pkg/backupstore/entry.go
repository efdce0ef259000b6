// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"regexp"
	"strings"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// AnnotationCreatedBy is the key of an annotation on a Secret with credentials. Its value is the name of the BackupEntry for
// which the Secret was created.
const AnnotationCreatedBy = "backup.gardener.cloud/created-by"

// sourcePrefix is the prefix of the names of source BackupEntries and of their Secrets. During a control plane migration
// snapshots are copied from them.
const sourcePrefix = v1beta1constants.BackupSourcePrefix + "-"

// uid matches the UID at the end of the name of a BackupEntry.
var uid = regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")

// EntryNamespace returns the namespace of the control plane to which the BackupEntry belongs, taken from its name.
func EntryNamespace(entryName string) string {
	namespace, _ := splitEntryName(entryName)

	return namespace
}

// splitEntryName returns the technical ID and the UID of a Shoot from the name of its BackupEntry, `<technical ID>--<UID>` or
// `source-<technical ID>--<UID>`. The package of Gardener's function for it requires more than 1000 other packages.
func splitEntryName(entryName string) (technicalID, entryUID string) {
	name := strings.TrimPrefix(entryName, sourcePrefix)
	segments := strings.Split(name, "--")
	entryUID = segments[len(segments)-1]

	return strings.TrimSuffix(name, "--"+entryUID), entryUID
}

// NamedEntry returns the name of the BackupEntry that the store of an Etcd in the namespace references. The store references
// it with backupEntryRef, or with a prefix whose first segment is such a name. Empty: the store references none, and the
// namespace decides.
func NamedEntry(spec druidv1alpha1.StoreSpec, namespace string) string {
	if spec.BackupEntryRef != nil {
		return spec.BackupEntryRef.Name
	}
	segment, _, _ := strings.Cut(spec.Prefix, "/")
	technicalID, entryUID := splitEntryName(segment)
	if technicalID == segment || technicalID == "" {
		return ""
	}
	if technicalID == namespace || uid.MatchString(entryUID) {
		return segment
	}

	return ""
}

// NeedsEntry is false if the store is complete without a BackupEntry.
func NeedsEntry(spec druidv1alpha1.StoreSpec) bool {
	return spec.SecretRef == nil || spec.SecretRef.Name == "" || isOmitted(spec)
}

// isOmitted is true if the spec omits the provider or the container.
func isOmitted(spec druidv1alpha1.StoreSpec) bool {
	return spec.Provider == nil || *spec.Provider == "" || spec.Container == nil || *spec.Container == ""
}

// ConventionalSecretName is the name that Gardener gives to the Secret with the credentials of a BackupEntry.
func ConventionalSecretName(entryName string) string {
	if strings.HasPrefix(entryName, sourcePrefix) {
		return sourcePrefix + v1beta1constants.BackupSecretName
	}

	return v1beta1constants.BackupSecretName
}
