// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// StoreResolution is the result of resolving the backup store of an Etcd.
type StoreResolution struct {
	// Reason is one of the reasons of the condition StoreResolved.
	Reason string
	// Message names the object and the remedy, or the resolved store.
	Message string
}

// StoreResolved is True if the location and the credentials of the backup store are known. Nil: the spec has no backup store.
// The etcd controller resolves the store and writes the condition.
func StoreResolved(etcd *druidv1alpha1.Etcd, resolution StoreResolution) *druidv1alpha1.Condition {
	if !helper.IsStoreConfigured(etcd) {
		return nil
	}
	status := druidv1alpha1.ConditionFalse
	if resolution.Reason == druidv1alpha1.ReasonStoreResolved {
		status = druidv1alpha1.ConditionTrue
	}

	return condition(druidv1alpha1.ConditionTypeStoreResolved, status, resolution.Reason, resolution.Message)
}
