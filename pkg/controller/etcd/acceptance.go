// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// acceptanceFor decides whether the current generation may be rolled out and with what. Nil: it has to wait for the
// operation annotation; what was rolled out before stays. A generation is accepted
//   - when the operation annotation asks for it,
//   - when the Etcd is new, or nothing of it is left,
//   - with auto-reconcile, when it was not accepted before.
func (r *Reconciler) acceptanceFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *state.Accepted {
	pinned := o.State.Accepted
	isAccepted := pinned != nil && pinned.Generation == etcd.Generation
	isNew := !o.ManagedResource.Exists && (etcd.Status.ObservedGeneration == nil || !o.StatefulSet.Exists)

	switch {
	case helper.IsReconcileRequested(etcd), isNew, r.Config.AutoReconcile && !isAccepted:
		return &state.Accepted{Generation: etcd.Generation, Defaults: r.Config.Defaults, CADataKeys: caDataKeys(etcd, o)}
	case isAccepted:
		return pinned
	default:
		return nil
	}
}

// withSpec returns the accepted generation with the spec that is rolled out with it.
func withSpec(a state.Accepted, spec druidv1alpha1.EtcdSpec) *state.Accepted {
	a.Spec = &spec
	return &a
}

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
