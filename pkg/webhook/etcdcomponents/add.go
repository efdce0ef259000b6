// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// AddToManager serves the webhook in every replica. The accounts are the users with rights on the objects of Etcds.
func AddToManager(mgr manager.Manager, accounts Accounts) {
	mgr.GetWebhookServer().Register(Path, &webhook.Admission{
		Handler:        &Handler{Reader: mgr.GetClient(), Accounts: accounts},
		RecoverPanic:   new(true),
		LogConstructor: admission.DefaultLogConstructor,
	})
}
