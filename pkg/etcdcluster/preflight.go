// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import "slices"

// Preflight is the result of a check before a pod of the latest template replaces the pod of a healthy member. The zero value passes.
type Preflight struct {
	// Refusal is why the new pod would not start or join, with the remedy, as one sentence. Empty: no reason is known.
	Refusal string
	// Unknown is what could not be checked, and why. It does not block the replacement. Empty: everything was checked.
	Unknown string
}

// HealthyOutdatedPods returns the pods of healthy members that were created from another template than the latest, sorted by ordinal.
func (o *Observation) HealthyOutdatedPods() []Pod {
	return slices.DeleteFunc(slices.Clone(o.Pods), func(pod Pod) bool { return !o.IsHealthy(pod) || !pod.IsOutdated(o.StatefulSet) })
}

// IsHealthy is true for a pod whose member serves: it is ready, or its member is healthy, and it is not being deleted.
func (o *Observation) IsHealthy(pod Pod) bool {
	endpoint := o.Etcd.Endpoint(pod.Ordinal)

	return !pod.Deleting && (pod.Ready || endpoint != nil && endpoint.Healthy)
}
