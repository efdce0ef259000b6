// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package crds embeds the CustomResourceDefinitions of druid.gardener.cloud and the policy that warns about deprecated
// fields of the manifest. The chart, the tests and the local seed install these files. They need Kubernetes 1.30 or
// newer.
//
// What may not live here: anything that is not generated from the types of the parent package, or installed together
// with them.
package crds

import (
	_ "embed"
	"maps"
	"slices"
)

const (
	// ResourceNameEtcd is the name of the CustomResourceDefinition of Etcd.
	ResourceNameEtcd = "etcds.druid.gardener.cloud"
	// ResourceNameEtcdCopyBackupsTask is the name of the CustomResourceDefinition of EtcdCopyBackupsTask.
	ResourceNameEtcdCopyBackupsTask = "etcdcopybackupstasks.druid.gardener.cloud"
	// ResourceNameEtcdOpsTask is the name of the CustomResourceDefinition of EtcdOpsTask.
	ResourceNameEtcdOpsTask = "etcdopstasks.druid.gardener.cloud"
)

var (
	//go:embed druid.gardener.cloud_etcds.yaml
	etcd string
	//go:embed druid.gardener.cloud_etcdcopybackupstasks.yaml
	etcdCopyBackupsTask string
	//go:embed druid.gardener.cloud_etcdopstasks.yaml
	etcdOpsTask string
	//go:embed deprecated-fields-warnings.yaml
	deprecatedFieldsWarnings string
)

// All returns the YAML of every CustomResourceDefinition by its name. The map is the caller's.
func All() map[string]string {
	return map[string]string{
		ResourceNameEtcd:                etcd,
		ResourceNameEtcdCopyBackupsTask: etcdCopyBackupsTask,
		ResourceNameEtcdOpsTask:         etcdOpsTask,
	}
}

// Names returns the names of all CustomResourceDefinitions, sorted.
func Names() []string { return slices.Sorted(maps.Keys(All())) }

// ByName returns the YAML of one CustomResourceDefinition, and false where there is none with the name.
func ByName(name string) (string, bool) {
	yaml, ok := All()[name]

	return yaml, ok
}

// DeprecatedFieldsWarnings returns the YAML, two documents, of the ValidatingAdmissionPolicy and its binding that warn
// on apply about each deprecated field of the manifest. They reject nothing. The binding is installed with the policy.
func DeprecatedFieldsWarnings() string { return deprecatedFieldsWarnings }
