// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/gardener-extension-etcd-druid/imagevector"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/copybackups"
)

// addCopyBackups adds the controller that copies snapshots, unless the configuration has it switched off.
func (o *Options) addCopyBackups(ctx context.Context, mgr manager.Manager) error {
	if !o.Config.Controllers.EtcdCopyBackupsTask.Enabled {
		return nil
	}
	sets, err := imagevector.Sets()
	if err != nil {
		return fmt.Errorf("finding images: %w", err)
	}
	// A copy opens no database. Each version of the sidecar copies the snapshots of each version of etcd.
	images := sets[etcdversion.V34]
	shared, err := o.sharedObserver(ctx, mgr)
	if err != nil {
		return err
	}
	return copybackups.AddToManager(ctx, mgr, copybackups.AddOptions{
		Controller: controller.Options{MaxConcurrentReconciles: *o.Config.Controllers.EtcdCopyBackupsTask.ConcurrentSyncs},
		Images:     copybackups.Images{BackupRestore: images.BackupRestore, Init: images.Init},
		Observer:   shared,
		Stores:     o.sharedStores(),

		LocalStoreRoots: localStoreRoots(o.Config.LocalStore, shared.Gardener),
		Restrictions:    shared.Restrictions,
	})
}
