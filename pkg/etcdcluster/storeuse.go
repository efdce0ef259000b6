// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// CredentialsPeriod is the time after which all sidecars use a changed Secret. The kubelet updates mounted Secrets within about two minutes,
// and the sidecar reads them before each snapshot.
const CredentialsPeriod = 5 * time.Minute

// providerWithEnvironment is the provider whose sidecar has its credentials from environment variables, which never change.
const providerWithEnvironment = "ECS"

// StoreUse is how sidecars use the endpoint and the account of their store.
type StoreUse struct {
	// Since is when the last sidecar began to use them. Zero: they never changed, or there are no pods.
	Since time.Time
	// Restarted is true if all pods were created after they changed.
	Restarted bool
	// IsKnown is false if a sidecar uses a changed Secret only after its pod is replaced.
	IsKnown bool
}

// StoreUseOf returns how the pods use a store. Nil: the store is not known, and counts as unchanged.
func StoreUseOf(store *state.Store, pods []Pod) StoreUse {
	use := StoreUse{Restarted: true, IsKnown: true}
	if store == nil || store.ChangedAt.IsZero() {
		return use
	}
	for _, pod := range pods {
		reads := pod.CreationTime
		if !pod.CreationTime.After(store.ChangedAt) {
			use.Restarted = false
			use.IsKnown = use.IsKnown && !hasFormerEndpoint(*store, pod)
			reads = store.ChangedAt.Add(CredentialsPeriod)
		}
		if reads.After(use.Since) {
			use.Since = reads
		}
	}

	return use
}

// hasFormerEndpoint is true if the sidecar of the pod uses a changed endpoint only after the pod is replaced.
func hasFormerEndpoint(store state.Store, pod Pod) bool {
	return store.Provider == providerWithEnvironment && !pod.CreationTime.After(store.ChangedAt)
}

// PodsWithFormerEndpoint are the names of the pods whose sidecars use a changed endpoint only after the pods are replaced. Nil: there are none,
// the store is nil, or its endpoint never changed.
func PodsWithFormerEndpoint(store *state.Store, pods []Pod) []string {
	if store == nil || store.ChangedAt.IsZero() {
		return nil
	}
	var names []string
	for _, pod := range pods {
		if hasFormerEndpoint(*store, pod) {
			names = append(names, pod.Name)
		}
	}

	return names
}

// LeaderStoreUse is StoreUseOf for the pod of the leader, whose sidecar takes all snapshots. All pods count if the leader is not known.
func (o Observation) LeaderStoreUse(store *state.Store) StoreUse {
	if leader := o.Leader(); leader != nil {
		return StoreUseOf(store, []Pod{*leader})
	}

	return StoreUseOf(store, o.Pods)
}

// FormerStoreUse is StoreUseOf for all pods, also for those that were the leader before. Without pods, the former pods count as older than the
// change.
func (o Observation) FormerStoreUse(store *state.Store) StoreUse {
	if len(o.Pods) == 0 {
		return StoreUseOf(store, []Pod{{}})
	}

	return StoreUseOf(store, o.Pods)
}
