// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// StoreResolution is how the search for the store of an Etcd ended.
type StoreResolution struct {
	// Reason is one of the reasons of the condition StoreResolved.
	Reason string
	// Message names the object and the next step, or says which store it is.
	Message string
}

// StoreResolved is True when it is known where snapshots go and with which credentials. Nil: the spec asks for no store. It
// belongs to the etcd controller, which looks the store up.
func StoreResolved(etcd *druidv1alpha1.Etcd, answer StoreResolution) *druidv1alpha1.Condition {
	if !helper.IsStoreConfigured(etcd) {
		return nil
	}
	status := druidv1alpha1.ConditionFalse
	if answer.Reason == druidv1alpha1.ReasonStoreResolved {
		status = druidv1alpha1.ConditionTrue
	}

	return condition(druidv1alpha1.ConditionTypeStoreResolved, status, answer.Reason, answer.Message)
}
