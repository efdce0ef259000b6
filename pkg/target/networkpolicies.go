// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

// ResolveNetworkPolicies decides the NetworkPolicies of the Etcd. They have the peers that were accepted, except for the pods of the
// operator: these are the ones of its configuration. The operator may run in another namespace than then, and would reach no member.
// Without NetworkPolicies in the configuration there are none: the operator may then only delete them.
func (t *Target) ResolveNetworkPolicies(config Config) {
	accepted, configured := t.Accepted.Defaults.NetworkPolicies, config.Defaults.NetworkPolicies
	if accepted == nil || configured == nil {
		t.NetworkPolicies = nil

		return
	}
	policies := *accepted
	policies.Operator = configured.Operator
	t.NetworkPolicies = &policies
}
