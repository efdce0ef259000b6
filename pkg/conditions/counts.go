// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Counts are the fields of an Etcd's status that are computed from its StatefulSet.
type Counts struct {
	// Replicas and CurrentReplicas are the number of existing pods. Both are equal, see CountsFor.
	Replicas, CurrentReplicas int32
	// ReadyReplicas is the number of ready pods.
	ReadyReplicas int32
	// Ready is true if every desired pod is ready, and clients can use the cluster. Each pod also has the latest template, unless outdated pods are kept.
	Ready bool
}

// CountsFor returns the counts for a canonical Etcd. Without a StatefulSet all are zero and Ready is false. keepsPods is true if the
// generation is rolled out, so that outdated pods wait for the next operation. Such pods are as ready as before. gardenlet
// reports an Etcd that is not ready as unhealthy, and an upgrade of the operator can outdate the pods of all Etcds. Ready is false while the condition
// Ready of the Etcd is False, because ready pods do not show whether clients can use the cluster.
//
// With the update strategy OnDelete, Kubernetes does not advance currentRevision and currentReplicas of the StatefulSet.
// Therefore CountsFor does not use them.
func CountsFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, keepsPods bool) Counts {
	statefulSet := o.StatefulSet
	expected := etcd.Spec.Replicas
	if observed := etcd.Status.ObservedGeneration; observed == nil || *observed != etcd.Generation {
		expected = statefulSet.SpecReplicas // the latest generation is not rolled out: the previous spec applies
	}
	if !helper.ManagesPods(etcd) {
		expected = 0
	}

	return Counts{
		Replicas:        statefulSet.Replicas,
		CurrentReplicas: statefulSet.Replicas,
		ReadyReplicas:   statefulSet.ReadyReplicas,
		Ready: !isUnusable(etcd.Status) && statefulSet.GenerationObserved() && statefulSet.Replicas == expected && statefulSet.ReadyReplicas >= expected &&
			(keepsPods || len(etcdcluster.OutdatedPods(o)) == 0),
	}
}

// isUnusable is true if the condition Ready is False. The condition of a hibernated cluster is not observed.
func isUnusable(status druidv1alpha1.EtcdStatus) bool {
	ready := Find(status.Conditions, druidv1alpha1.ConditionTypeReady)

	return ready != nil && ready.Status == druidv1alpha1.ConditionFalse && ready.Reason != druidv1alpha1.ReasonNotChecked
}

// VotersFor returns the number of voting members of the Etcd, without those of a cluster that it joined. It uses the member
// list of etcd. If there is no list, or if it has no member of the Etcd, it returns the size in the spec.
func VotersFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) int {
	voters := 0
	for _, listed := range o.Etcd.MemberList {
		if !listed.Learner && !etcdcluster.IsOfExisting(etcd, listed.Name) {
			voters++
		}
	}
	if voters == 0 {
		return int(etcd.Spec.Replicas)
	}

	return voters
}
