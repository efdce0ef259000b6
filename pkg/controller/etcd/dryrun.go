// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// checkObjects refuses a rendering with metadata that the API server would reject. It includes the objects without a dry run: those of RBAC, the
// Leases, and the ManagedResource, whose annotations contain the accepted spec.
func (r *execution) checkObjects(run *engine.Run, annotations map[string]string) error {
	objects := slices.Clone(run.Rendered.Objects)
	for _, lease := range slices.Concat(componentetcd.MemberLeases(run.Rendered.Values), componentetcd.SnapshotLeases(run.Rendered.Values)) {
		objects = append(objects, lease)
	}
	record := metadataOf(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"))
	record.Namespace, record.Name, record.Annotations = run.Target.Etcd.Namespace, helper.ManagedResourceName(run.Target.Etcd), annotations
	if err := componentetcd.CheckMetadata(append(objects, record)...); err != nil {
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, fmt.Errorf("the API server rejects an object of this spec: %w; change the name, label or annotation in the Etcd from which the operator derives it", err))
	}
	return nil
}

// dryRun creates the rendered objects in a dry run. If the API server rejects one of them, the spec is invalid, and nothing is written to the
// ManagedResource. Otherwise gardener-resource-manager would apply no other object either. The API server validates an object before it reports that the name
// exists. It returns the objects that exist, and those without a dry run: checkOwnership reads them.
func (r *Reconciler) dryRun(ctx context.Context, objects []client.Object) ([]client.Object, error) {
	var mayExist []client.Object
	for _, obj := range objects {
		kind, code, has := dryRunFor(obj)
		if !has {
			mayExist = append(mayExist, obj)
			continue
		}
		err := r.Client.Create(ctx, obj.DeepCopyObject().(client.Object), client.DryRunAll)
		switch {
		case err == nil:
		case apierrors.IsAlreadyExists(err):
			mayExist = append(mayExist, obj)
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			return nil, plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, fmt.Errorf("the API server rejects the %s of this spec: %w", kind, err))
		default:
			return nil, plan.Failed(code, fmt.Errorf("dry run of %s %s: %w", kind, obj.GetName(), err))
		}
	}
	return mayExist, nil
}

// dryRunFor returns the kind of an object, and the error code if its dry run fails. False: the object has no dry run. For RBAC objects, the API server
// would require that the operator has all permissions in them.
func dryRunFor(obj client.Object) (string, druidv1alpha1.ErrorCode, bool) {
	switch o := obj.(type) {
	case *appsv1.StatefulSet:
		return "StatefulSet", druidv1alpha1.ErrorCodeSyncStatefulSet, true
	case *corev1.Service:
		if o.Spec.ClusterIP == corev1.ClusterIPNone {
			return "Service", druidv1alpha1.ErrorCodeSyncPeerService, true
		}
		return "Service", druidv1alpha1.ErrorCodeSyncClientService, true
	case *policyv1.PodDisruptionBudget:
		return "PodDisruptionBudget", druidv1alpha1.ErrorCodeSyncPodDisruptionBudget, true
	case *networkingv1.NetworkPolicy:
		return "NetworkPolicy", druidv1alpha1.ErrorCodeSyncNetworkPolicy, true
	case *corev1.ConfigMap:
		return "ConfigMap", druidv1alpha1.ErrorCodeSyncConfigMap, true
	}
	return "", "", false
}
