// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"slices"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// SecretsOfCopy are the sorted, unique names of the Secrets in the spec of a task.
func SecretsOfCopy(task *druidv1alpha1.EtcdCopyBackupsTask) []string {
	var names []string
	for _, store := range []druidv1alpha1.StoreSpec{task.Spec.SourceStore, task.Spec.TargetStore} {
		if store.SecretRef != nil && store.SecretRef.Name != "" {
			names = append(names, store.SecretRef.Name)
		}
	}
	slices.Sort(names)

	return slices.Compact(names)
}
