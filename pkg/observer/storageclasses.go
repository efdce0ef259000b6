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

// readStorageClasses reads whether claims that are smaller than the spec requests can be expanded. It reads from the API server: such claims
// are rare.
func (r *reader) readStorageClasses(ctx context.Context) {
	wanted := helper.StorageCapacity(r.etcd)
	expandable := map[string]bool{"": false} // a claim without a class was not provisioned dynamically, and the API server rejects its expansion
	for i := range r.observation.Claims {
		claim := &r.observation.Claims[i]
		if !claim.Exists || !claim.Bound || claim.Requested >= wanted.Value() {
			continue
		}
		is, known := expandable[claim.StorageClass]
		if !known {
			var err error
			if is, err = r.isExpandable(ctx, claim.StorageClass); err != nil {
				r.failed(etcdcluster.SectionStorageClasses, err)

				return
			}
			expandable[claim.StorageClass] = is
		}
		claim.Expandable = new(is)
		if is {
			r.tryResize(ctx, claim, wanted.Value())
		}
	}
}

// isGrowable is false also where there is no such class.
func (r *reader) isExpandable(ctx context.Context, name string) (bool, error) {
	class := &storagev1.StorageClass{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}

		return false, fmt.Errorf("reading StorageClass %s: %w", name, err)
	}

	return ptr.Deref(class.AllowVolumeExpansion, false), nil
}
