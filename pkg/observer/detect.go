// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Detect finds out which of Gardener's CustomResourceDefinitions are installed, and adds StoreIndex and BackupEntryIndex to the cache. It does not
// notice CustomResourceDefinitions that are installed later: the operator detects them at its next start.
func (o *Observer) Detect(ctx context.Context, mapper meta.RESTMapper, indexer client.FieldIndexer) error {
	if err := o.indexStores(ctx, indexer); err != nil {
		return err
	}
	extensionsKind := extensionsv1alpha1.SchemeGroupVersion.WithKind
	clusters, err := isInstalled(mapper, extensionsKind(extensionsv1alpha1.ClusterResource))
	if err != nil {
		return err
	}
	entries, err := isInstalled(mapper, extensionsKind(extensionsv1alpha1.BackupEntryResource))
	if err != nil {
		return err
	}
	if o.Garden, err = isInstalled(mapper, operatorv1alpha1.SchemeGroupVersion.WithKind("Garden")); err != nil {
		return err
	}
	if o.Gardener = clusters && entries; !o.Gardener {
		return nil
	}
	if err := indexer.IndexField(ctx, &extensionsv1alpha1.BackupEntry{}, BackupEntryIndex, IndexBackupEntry); err != nil {
		return fmt.Errorf("indexing BackupEntries: %w", err)
	}

	return nil
}

func isInstalled(mapper meta.RESTMapper, kind schema.GroupVersionKind) (bool, error) {
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("finding the CustomResourceDefinition of %s: %w", kind.Kind, err)
	}

	return true, nil
}
