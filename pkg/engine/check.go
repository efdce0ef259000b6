// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// CheckObjects refuses a rendering with metadata that the API server would reject. It includes the objects without a dry run: those of RBAC, the
// Leases, and the ManagedResource, whose annotations contain the accepted spec.
func (r *Run) CheckObjects() error {
	annotations, err := r.NextState().Encode()
	if err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
	}
	objects := slices.Clone(r.Rendered.Objects)
	for _, lease := range slices.Concat(componentetcd.MemberLeases(r.Rendered.Values), componentetcd.SnapshotLeases(r.Rendered.Values)) {
		objects = append(objects, lease)
	}
	record := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "resources.gardener.cloud/v1alpha1", Kind: "ManagedResource"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Target.Etcd.Namespace, Name: helper.ManagedResourceName(r.Target.Etcd), Annotations: annotations,
		},
	}
	if err := componentetcd.CheckMetadata(append(objects, record)...); err != nil {
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, fmt.Errorf("the API server rejects an object of this spec: %w; change the name, label or annotation in the Etcd from which the operator derives it", err))
	}

	return nil
}
