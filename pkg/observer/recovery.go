// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// readRecovery reads the Job of a recovery from a lost quorum, and its pods. While the loss of a quorum is recorded, it finds the other clusters
// without a quorum.
func (r *reader) readRecovery(ctx context.Context) {
	if recovery := r.observation.State.Recovery; recovery != nil {
		r.findClustersWithoutQuorum(ctx, recovery.LostAt)
	}
	if job, pods, exists := r.jobWithPods(ctx, helper.RecoveryJobName(r.etcd), druidv1alpha1.ComponentNameRecoveryJob); exists {
		recovery := etcdcluster.RecoveryJobFor(job, pods)
		recovery.Message = cmp.Or(recovery.Message, r.jobProblem(ctx, job))
		r.observation.RecoveryJob = recovery
	}
}

// lossWindow is how long before the loss of a quorum that of another cluster may have the same cause.
const lossWindow = time.Hour

// findClustersWithoutQuorum finds the other Etcds whose quorum is lost or not known, by their condition Ready, since lossWindow before this loss.
// During a fault of the network, the operator does not know it. Clusters that had no quorum before do not show such a fault.
func (r *reader) findClustersWithoutQuorum(ctx context.Context, lostAt time.Time) {
	etcds := &druidv1alpha1.EtcdList{}
	if err := r.Reader.List(ctx, etcds); err != nil {
		r.failed(etcdcluster.SectionRestoreVerification, err)

		return
	}
	r.observation.ClustersWithoutQuorum = nil
	for i := range etcds.Items {
		hasNoQuorum := slices.ContainsFunc(etcds.Items[i].Status.Conditions, func(c druidv1alpha1.Condition) bool {
			return c.Type == druidv1alpha1.ConditionTypeReady && (c.Reason == druidv1alpha1.ReasonQuorumLost || c.Reason == druidv1alpha1.ReasonUnknown) &&
				!c.LastTransitionTime.Time.Before(lostAt.Add(-lossWindow))
		})
		if hasNoQuorum && etcds.Items[i].UID != r.etcd.UID {
			r.observation.ClustersWithoutQuorum = append(r.observation.ClustersWithoutQuorum, client.ObjectKeyFromObject(&etcds.Items[i]).String())
		}
	}
	slices.Sort(r.observation.ClustersWithoutQuorum)
}
