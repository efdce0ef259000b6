// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// accept decides whether the generation of an Etcd may be rolled out and with what. Nil: it has to wait for the operation annotation; what
// was rolled out before stays. A generation is accepted in these cases:
//   - the operation annotation requests it;
//   - the Etcd is new, or nothing of it is left;
//   - the operator reconciles automatically, and the generation was not accepted before.
func accept(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, config Config) *state.Accepted {
	recorded := o.State.Accepted
	isAccepted := recorded != nil && recorded.Generation == etcd.Generation
	isNew := !o.ManagedResource.Exists && (etcd.Status.ObservedGeneration == nil || !o.StatefulSet.Exists)

	switch {
	case helper.IsReconcileRequested(etcd), isNew, config.AutoReconcile && !isAccepted:
		return &state.Accepted{Generation: etcd.Generation, Defaults: config.Defaults, CADataKeys: caDataKeys(etcd, o)}
	case isAccepted:
		return recorded
	default:
		return nil
	}
}

// caDataKeys returns the keys under which the CA Secrets of the spec hold the bundle, where the spec does not name a key.
func caDataKeys(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) map[string]string {
	var refs []druidv1alpha1.SecretReference
	if tls := helper.ClientTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}
	if tls := helper.PeerTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}
	if tls := helper.BackupTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}

	keys := map[string]string{}
	for _, ref := range refs {
		if ref.DataKey == nil || *ref.DataKey == "" {
			keys[ref.Name] = etcdcluster.CAKey(ref, o)
		}
	}
	if len(keys) == 0 {
		return nil
	}

	return keys
}
