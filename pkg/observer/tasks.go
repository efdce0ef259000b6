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
func (p *pass) readTasks(ctx context.Context) {
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := p.Reader.List(ctx, tasks, client.InNamespace(p.etcd.Namespace)); err != nil {
		p.failed(etcdcluster.SectionTasks, err)

		return
	}
	p.seen.Defragmentation = opstask.DefragmentationOf(p.etcd, tasks.Items)
	p.seen.FullSnapshotRequested = opstask.FullSnapshotRequestedAt(p.etcd, tasks.Items)
}
