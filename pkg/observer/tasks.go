// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
)

// readTasks reads what the EtcdOpsTasks of the namespace do to the Etcd.
func (r *reader) readTasks(ctx context.Context) {
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Reader.List(ctx, tasks, client.InNamespace(r.etcd.Namespace)); err != nil {
		r.failed(etcdcluster.SectionTasks, err)

		return
	}
	r.observation.Defragmentation = opstask.DefragmentationOf(r.etcd, tasks.Items)
	r.observation.FullSnapshotRequested = opstask.FullSnapshotRequestedAt(r.etcd, tasks.Items)
}
