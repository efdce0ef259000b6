// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// lists is true for an object that gardener-resource-manager has applied from a ManagedResource of this operator.
func lists(mr *resourcesv1alpha1.ManagedResource, kind schema.GroupVersionKind, name string) bool {
	if mr == nil || mr.Labels[managedresources.LabelKeyOrigin] != druidv1alpha1.ManagedResourceOrigin {
		return false
	}
	return slices.ContainsFunc(mr.Status.Resources, func(reference resourcesv1alpha1.ObjectReference) bool {
		return reference.GroupVersionKind().GroupKind() == kind.GroupKind() && reference.Namespace == mr.Namespace && reference.Name == name
	})
}

// checkOwnership refuses a rendering with objects that exist and do not belong to the Etcd: gardener-resource-manager would overwrite
// them. It reads from the API server each object that the ManagedResource does not list yet.
func (r *Reconciler) checkOwnership(ctx context.Context, etcd *druidv1alpha1.Etcd, mr *resourcesv1alpha1.ManagedResource, objects []client.Object) error {
	var foreign []string
	for _, obj := range objects {
		kind, err := apiutil.GVKForObject(obj, r.Client.Scheme())
		if err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeObserve, err)
		}
		if lists(mr, kind, obj.GetName()) {
			continue
		}
		live := metadataOf(kind)
		switch err := r.Reader.Get(ctx, client.ObjectKeyFromObject(obj), live); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading %s %s: %w", kind.Kind, obj.GetName(), err))
		case !helper.IsManagedFor(live, etcd):
			foreign = append(foreign, kind.Kind+" "+obj.GetName())
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	return target.RefuseForeign(druidv1alpha1.ErrorCodeInvalidSpec, etcd, foreign...)
}
