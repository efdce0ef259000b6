// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package handback checks whether etcd-druid can continue with an Etcd that this operator has handed back.
package handback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/etcd-druid/api/validation"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const finalizer = "druid.gardener.cloud/etcd-druid"

// Check returns an error for each reason why etcd-druid could not continue. The API module of etcd-druid must accept the Etcd. The objects
// must have the labels, the owners and the mounts of etcd-druid. The API server must accept what etcd-druid writes next. Check writes
// nothing.
func Check(ctx context.Context, c client.Client, druid fixture.EtcdDruid) error {
	errs := []error{checkEtcd(druid.Etcd)}
	for _, rendered := range druid.Objects() {
		if err := checkObject(ctx, c, rendered); err != nil {
			errs = append(errs, fmt.Errorf("%T %s: %w", rendered, rendered.GetName(), err))
		}
	}

	return errors.Join(errs...)
}

func checkEtcd(etcd *druidv1alpha1.Etcd) error {
	manifest, err := json.Marshal(etcd)
	if err != nil {
		return err
	}
	upstream := &upstreamv1alpha1.Etcd{}
	if err := json.Unmarshal(manifest, upstream); err != nil {
		return fmt.Errorf("the Etcd as a type of etcd-druid: %w", err)
	}
	errs := []error{validation.ValidateEtcd(upstream).ToAggregate()}
	if !slices.Equal(etcd.Finalizers, []string{finalizer}) {
		errs = append(errs, fmt.Errorf("the Etcd has the finalizers %v", etcd.Finalizers))
	}
	if upstreamv1alpha1.GetReconcileOperationAnnotationKey(upstream.ObjectMeta) != nil || upstreamv1alpha1.GetSuspendEtcdSpecReconcileAnnotationKey(upstream.ObjectMeta) != nil {
		errs = append(errs, fmt.Errorf("the Etcd has the annotations %v", etcd.Annotations))
	}

	return errors.Join(errs...)
}

func checkObject(ctx context.Context, c client.Client, rendered client.Object) error {
	object := rendered.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(rendered), object); err != nil {
		return err
	}
	var errs []error
	for key, value := range rendered.GetLabels() {
		if object.GetLabels()[key] != value {
			errs = append(errs, fmt.Errorf("label %s is %q and not %q", key, object.GetLabels()[key], value))
		}
	}
	if !equality.Semantic.DeepEqual(object.GetOwnerReferences(), rendered.GetOwnerReferences()) {
		errs = append(errs, fmt.Errorf("the owners are %v", object.GetOwnerReferences()))
	}
	if object.GetDeletionTimestamp() != nil || len(object.GetFinalizers()) > 0 {
		errs = append(errs, fmt.Errorf("it is being deleted, or has the finalizers %v", object.GetFinalizers()))
	}
	switch object := object.(type) {
	case *coordinationv1.Lease:
		rendered.(*coordinationv1.Lease).Spec = object.Spec // the sidecar writes it
	case *appsv1.StatefulSet:
		mounts := mountsOf(object)
		for _, mount := range mountsOf(rendered.(*appsv1.StatefulSet)) {
			if !slices.Contains(mounts, mount) {
				errs = append(errs, fmt.Errorf("no %s; the pods have: %s", mount, strings.Join(mounts, ", ")))
			}
		}
	}
	rendered.SetResourceVersion(object.GetResourceVersion())

	return errors.Join(append(errs, c.Update(ctx, rendered, client.DryRunAll))...)
}

// mountsOf describes the mounts in the pods of a StatefulSet. etcd-druid compares those of TLS with its own before it changes anything
// else.
func mountsOf(statefulSet *appsv1.StatefulSet) []string {
	secrets := map[string]string{}
	for _, volume := range statefulSet.Spec.Template.Spec.Volumes {
		if volume.Secret != nil {
			secrets[volume.Name] = " of Secret " + volume.Secret.SecretName
		}
	}
	var mounts []string
	for _, container := range statefulSet.Spec.Template.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			mounts = append(mounts, fmt.Sprintf("mount of volume %s%s at %s in container %s", mount.Name, secrets[mount.Name], strings.TrimSuffix(mount.MountPath, "/"), container.Name))
		}
	}

	return mounts
}
