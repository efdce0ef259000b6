// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import "cmp"

// ServedClientPort is the port at which clients are served: that of the StatefulSet as soon as a pod was made with it, since the
// Service leads to no other one then, else that of the pod that was made last. 0: nothing is there that would tell.
func (o Observation) ServedClientPort() int32 {
	rendered, youngest := o.StatefulSet.ClientPort, Pod{}
	for _, pod := range o.Pods {
		switch {
		case pod.ClientPort == 0:
		case pod.ClientPort == rendered:
			return rendered
		case !pod.CreationTime.Before(youngest.CreationTime):
			youngest = pod
		}
	}

	return cmp.Or(youngest.ClientPort, rendered)
}
