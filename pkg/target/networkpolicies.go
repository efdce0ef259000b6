// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// defaultsFor returns the newest defaults for an Etcd. With RestrictsNewOnly, an Etcd that has run without NetworkPolicies gets none.
func (c Config) defaultsFor(o etcdcluster.Observation) state.Defaults {
	defaults, recorded := c.Defaults, o.State.Accepted
	isAdopted := recorded == nil && o.StatefulSet.Exists && !o.ManagedResource.Exists
	if c.RestrictsNewOnly && (isAdopted || recorded != nil && recorded.Defaults.NetworkPolicies == nil) {
		defaults.NetworkPolicies = nil
	}

	return defaults
}

// ResolveNetworkPolicies decides the NetworkPolicies of the Etcd. They have the peers that were accepted, except for the pods of the
// operator: these are the ones of its configuration. The operator may run in another namespace than then, and would reach no member.
// Without NetworkPolicies in the configuration there are none: the operator may then only delete them.
func (t *Target) ResolveNetworkPolicies(config Config) {
	accepted, configured := t.Accepted.Defaults.NetworkPolicies, config.Defaults.NetworkPolicies
	t.IsUnrestricted = config.RestrictsNewOnly && accepted == nil && configured != nil
	if accepted == nil || configured == nil {
		t.NetworkPolicies = nil

		return
	}
	policies := *accepted
	policies.Operator = configured.Operator
	t.NetworkPolicies = &policies
}
