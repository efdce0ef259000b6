// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

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

// dryRunJob creates the compaction Job in a dry run if the spec changes its settings, or adds the store. Otherwise a cluster could run without compactions
// for ever. No Job has to be created now. Only an invalid field therefore prevents the rollout: a quota, a policy or a webhook may allow the Job later.
func (r *Reconciler) dryRunJob(ctx context.Context, run *engine.Run) error {
	t, before := run.Target, run.Target.SpecBefore(run.Observation)
	settings := t.Etcd.Spec.Backup.SnapshotCompaction
	if t.Store == nil || settings == nil || before != nil && before.Backup.Store != nil && apiequality.Semantic.DeepEqual(before.Backup.SnapshotCompaction, settings) {
		return nil
	}
	job := compaction.Job(compaction.Values{Etcd: t.Etcd, Store: *t.Store, Image: t.Accepted.Defaults.ImagesOf(t.Accepted.EtcdVersion).BackupRestore, Deadline: time.Hour, Attempt: 1})
	if err := r.Client.Create(ctx, job, client.DryRunAll); isInvalidField(err) {
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, fmt.Errorf("spec.backup.snapshotCompaction: the API server rejects the Job of this spec: %w", err))
	}
	return nil
}

// isInvalidField is true for an error of the validation of an object. A policy that denies an object also returns the reason Invalid, but no field.
func isInvalidField(err error) bool {
	status := (*apierrors.StatusError)(nil)

	return apierrors.IsInvalid(err) && errors.As(err, &status) && status.ErrStatus.Details != nil &&
		slices.ContainsFunc(status.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field != "" })
}
