// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versionedClient reads a ManagedResource as it was when the operator decided what to write. An update of any other version ends in a
// conflict.
type versionedClient struct {
	client.Client
	// current is that ManagedResource. Nil: it did not exist.
	current *resourcesv1alpha1.ManagedResource
}

// Get implements client.Reader.
func (c versionedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	mr, is := obj.(*resourcesv1alpha1.ManagedResource)
	switch {
	case !is:
		return c.Client.Get(ctx, key, obj, opts...)
	case c.current == nil:
		return apierrors.NewNotFound(resourcesv1alpha1.Resource("managedresources"), key.Name)
	default:
		c.current.DeepCopyInto(mr)
		return nil
	}
}
