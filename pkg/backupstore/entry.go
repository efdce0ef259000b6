// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"regexp"
	"strings"

	"github.com/gardener/gardener/extensions/pkg/controller/backupentry"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// AnnotationCreatedBy is the key, on a Secret with credentials, of the name of the BackupEntry that it was made for.
const AnnotationCreatedBy = "backup.gardener.cloud/created-by"

// sourcePrefix begins the names of entries, and of their Secrets, from which a control plane that moves takes its snapshots.
const sourcePrefix = v1beta1constants.BackupSourcePrefix + "-"

// uid is how Gardener ends the name of an entry.
var uid = regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")

// EntryNamespace is the namespace that the name of a BackupEntry tells: that of the control plane that it belongs to.
func EntryNamespace(entryName string) string {
	namespace, _ := backupentry.ExtractShootDetailsFromBackupEntryName(entryName)

	return namespace
}

// NamedEntry is the name of the BackupEntry that the store of an Etcd in the namespace names: by reference, or by a prefix
// whose first segment looks like the name of one. Empty: it names none, so that the namespace decides.
func NamedEntry(spec druidv1alpha1.StoreSpec, namespace string) string {
	if spec.BackupEntryRef != nil {
		return spec.BackupEntryRef.Name
	}
	segment, _, _ := strings.Cut(spec.Prefix, "/")
	technicalID, entryUID := backupentry.ExtractShootDetailsFromBackupEntryName(segment)
	if technicalID == segment || technicalID == "" {
		return ""
	}
	if technicalID == namespace || uid.MatchString(entryUID) {
		return segment
	}

	return ""
}

// NeedsEntry is false when the store is complete without any BackupEntry.
func NeedsEntry(spec druidv1alpha1.StoreSpec) bool {
	return spec.SecretRef == nil || spec.SecretRef.Name == "" || isOmitted(spec)
}

// isOmitted is true when the entry has to tell provider or container.
func isOmitted(spec druidv1alpha1.StoreSpec) bool {
	return spec.Provider == nil || *spec.Provider == "" || spec.Container == nil || *spec.Container == ""
}

// ConventionalSecretName is the name of the Secret in which Gardener keeps the credentials of an entry.
func ConventionalSecretName(entryName string) string {
	if strings.HasPrefix(entryName, sourcePrefix) {
		return sourcePrefix + v1beta1constants.BackupSecretName
	}

	return v1beta1constants.BackupSecretName
}
