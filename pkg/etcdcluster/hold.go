// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// unreadyHoldTime is how long the pod of a single member has to be not ready before it is replaced although the store is unreachable. A
// failed probe and the restart of a container take less.
const unreadyHoldTime = 2 * time.Minute

// heldByNode returns the plan that waits for the node of a single member's pod to be reachable. Nil: it is. Deleting the pod would not
// start another one before the node has recovered, and etcd may be healthy there.
func (p Plan) heldByNode(pod Pod) *Plan {
	if !isOutOfSight(pod) {
		return nil
	}
	p.Step = nil
	p.Reason += fmt.Sprintf(": not while node %s is unreachable, where etcd may be healthy", pod.Node)
	p.WaitsFor = fmt.Sprintf("node %s to be reachable%s", pod.Node, outOfServiceHint(pod))

	return &p
}

// heldByStore returns the plan that waits for the store instead of replacing the pod of a single member of a canonical Etcd. Nil: nothing
// speaks against a restart, or the pod has not been ready for unreadyHoldTime or never started because of its image: it is replaced
// without the store, or else a corrected spec would never be rolled out.
func (p Plan) heldByStore(etcd *druidv1alpha1.Etcd, o Observation, pod Pod, now time.Time) *Plan {
	hold := StoreHold(etcd, o, pod, now)
	if hold == "" || pod.neverStarts() {
		return nil
	}
	anyway := "To replace the pod without waiting, delete it"
	if !pod.Ready {
		until := later(pod.ReadyChangedAt, pod.CreationTime).Add(unreadyHoldTime)
		if !now.Before(until) {
			return nil
		}
		p.ReplanAfter = until.Sub(now)
		anyway = fmt.Sprintf("If the pod is not ready by %s, the operator replaces it without waiting", until.UTC().Format(time.RFC3339))
	}
	p.Step = nil
	p.WaitsFor = fmt.Sprintf("a new snapshot in the store: %s. Pod %s cannot start again without the store. %s", hold, pod.Name, anyway)

	return &p
}

// neverStarts is true for a pod with a container that has not run yet and whose image cannot be pulled. A container that has run may
// have to pull its image again when it restarts, and succeed.
func (p Pod) neverStarts() bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.isUnpulled() && c.hasNeverRun() })
}
