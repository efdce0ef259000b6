// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// readStorageClasses finds out whether claims may grow that are smaller than the spec asks for, past the caches: that is seldom
// the case.
func (p *pass) readStorageClasses(ctx context.Context) {
	wanted := helper.StorageCapacity(p.etcd)
	growable := map[string]bool{"": false} // what has no class was not made by a provisioner, and the API server refuses its growth
	for i := range p.seen.Claims {
		claim := &p.seen.Claims[i]
		if !claim.Exists || !claim.Bound || claim.Requested >= wanted.Value() {
			continue
		}
		is, known := growable[claim.StorageClass]
		if !known {
			var err error
			if is, err = p.isGrowable(ctx, claim.StorageClass); err != nil {
				p.failed(etcdcluster.SectionStorageClasses, err)

				return
			}
			growable[claim.StorageClass] = is
		}
		claim.Expandable = new(is)
		if is {
			p.tryResize(ctx, claim, wanted.Value())
		}
	}
}

// isGrowable is false also where there is no such class.
func (p *pass) isGrowable(ctx context.Context, name string) (bool, error) {
	class := &storagev1.StorageClass{}
	if err := p.APIReader.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}

		return false, fmt.Errorf("reading StorageClass %s: %w", name, err)
	}

	return ptr.Deref(class.AllowVolumeExpansion, false), nil
}
