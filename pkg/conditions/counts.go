// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Counts are the numbers of an Etcd's status that come from its StatefulSet.
type Counts struct {
	// Replicas and CurrentReplicas are the pods that exist; they are the same, see CountsFor.
	Replicas, CurrentReplicas int32
	// ReadyReplicas are the pods that are ready.
	ReadyReplicas int32
	// Ready is true when every desired pod is ready and made from the newest template.
	Ready bool
}

// CountsFor computes the counts for a canonical Etcd. Without a StatefulSet all are zero and Ready is false.
//
// Under the update strategy OnDelete Kubernetes never advances the StatefulSet's currentRevision and currentReplicas: they
// are not read.
func CountsFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) Counts {
	statefulSet := o.StatefulSet
	expected := etcd.Spec.Replicas
	if observed := etcd.Status.ObservedGeneration; observed == nil || *observed != etcd.Generation {
		expected = statefulSet.SpecReplicas // the spec of now has not been carried out: it is the one before that is judged
	}
	if !helper.ManagesPods(etcd) {
		expected = 0
	}

	return Counts{
		Replicas:        statefulSet.Replicas,
		CurrentReplicas: statefulSet.Replicas,
		ReadyReplicas:   statefulSet.ReadyReplicas,
		Ready: statefulSet.GenerationObserved() && statefulSet.Replicas == expected && statefulSet.ReadyReplicas >= expected &&
			len(etcdcluster.OutdatedPods(o)) == 0,
	}
}

// VotersFor is how many members of the Etcd have a vote, without those of a cluster that it joined: as the cluster's own list
// says or, where nobody gave one or none of the Etcd's is in it, as many as the spec asks for.
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
