// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/json"
	"fmt"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// acceptance is a generation that may be rolled out, with everything beside the spec that it is rendered with. It is
// resolved once, when the generation is accepted, and pinned on the ManagedResource: an operator of another version, with other
// images and defaults, renders the same and restarts no pod.
type acceptance struct {
	// Generation of the Etcd that was accepted.
	Generation int64 `json:"generation"`
	// Defaults of the operator that accepted it.
	Defaults state.Defaults `json:"defaults"`
	// CADataKeys are the keys of CA bundles that were found in Secrets whose reference names none.
	CADataKeys map[string]string `json:"caDataKeys,omitempty"`
	// Spec is the spec of that generation in its canonical form: what the cluster is kept at while a later generation waits
	// or is refused. Nil: it was accepted before specs were remembered, or is too large for that.
	Spec *druidv1alpha1.EtcdSpec `json:"spec,omitempty"`
	// Over is true when the operation with that generation is known to have succeeded, though a later one is all that the
	// status tells of.
	Over bool `json:"over,omitempty"`
}

// longestMemory is the largest number of bytes to be remembered of a spec: the annotations of an object are limited to 256Ki
// together.
const longestMemory = 96 * 1024

// acceptanceFor decides whether the current generation may be rolled out and with what. Nil: it has to wait for the
// operation annotation; what was rolled out before stays. A generation is accepted
//   - when the operation annotation asks for it,
//   - when the Etcd is new, or nothing of it is left,
//   - with auto-reconcile, when it was not accepted before.
func (r *Reconciler) acceptanceFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *acceptance {
	pinned := parseAcceptance(o.ManagedResource.Defaults)
	isAccepted := pinned != nil && pinned.Generation == etcd.Generation
	isNew := !o.ManagedResource.Exists && (etcd.Status.ObservedGeneration == nil || !o.StatefulSet.Exists)

	switch {
	case helper.IsReconcileRequested(etcd), isNew, r.Config.AutoReconcile && !isAccepted:
		return &acceptance{Generation: etcd.Generation, Defaults: r.Config.Defaults, CADataKeys: caDataKeys(etcd, o)}
	case isAccepted:
		return pinned
	default:
		return nil
	}
}

// parseAcceptance reads what was pinned. Nil: nothing was, or somebody broke it, which is the same: the operation annotation pins anew.
func parseAcceptance(pinned string) *acceptance {
	if pinned == "" {
		return nil
	}
	a := &acceptance{}
	if err := json.Unmarshal([]byte(pinned), a); err != nil {
		return nil
	}
	return a
}

// of returns the acceptance with the spec that is carried out with it.
func (a *acceptance) of(spec druidv1alpha1.EtcdSpec) *acceptance {
	accepted := *a
	accepted.Spec = &spec
	return &accepted
}

func (a *acceptance) marshal() (string, error) {
	data, err := json.Marshal(a)
	if err == nil && len(data) > longestMemory {
		short := *a
		short.Spec = nil
		data, err = json.Marshal(short)
	}
	if err != nil {
		return "", fmt.Errorf("pinning the operator's defaults: %w", err)
	}
	return string(data), nil
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
