// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

func init() { deltaRetry = wait.Backoff{Steps: 5} } // the sidecars in tests need no time

// CreateInspectionJob calls createInspectionJob.
func (r *Reconciler) CreateInspectionJob(ctx context.Context, run *engine.Run, claim etcdcluster.Claim) error {
	return (&execution{Reconciler: r}).createInspectionJob(ctx, run, claim, "a restore is requested")
}

// HibernationEventType is hibernationEventType.
var HibernationEventType = hibernationEventType
