// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"maps"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/drift"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/payload"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// desiredResource is a ManagedResource as it should be.
type desiredResource struct {
	secretName  string
	data        map[string][]byte
	annotations map[string]string
}

// serialize turns objects into the payload of a ManagedResource. The same objects give the same secret name. It takes some
// milliseconds, so that the result is cached by the checksum of the rendering.
func (r *Reconciler) serialize(etcd *druidv1alpha1.Etcd, checksum string, objects []client.Object, annotations map[string]string) (desiredResource, error) {
	if known, found := r.cachedPayload(checksum); found {
		known.annotations = annotations
		return known, nil
	}
	scheme := r.Client.Scheme()
	manifests, err := payload.Encode(scheme, objects)
	if err != nil {
		return desiredResource{}, fmt.Errorf("serializing the rendered objects: %w", err)
	}
	registry := managedresources.NewRegistry(scheme, serializer.NewCodecFactory(scheme),
		jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, jsonserializer.SerializerOptions{}))
	// For a single write, the compression allocates as much as it needs, and otherwise buffers of some megabytes.
	registry.AddSerialized("manifests.yaml", manifests)
	data, err := registry.SerializedObjects()
	if err != nil {
		return desiredResource{}, fmt.Errorf("compressing the rendered objects: %w", err)
	}
	name, _ := managedresources.NewSecret(r.Client, etcd.Namespace, helper.ManagedResourceName(etcd), data, true)
	desired := desiredResource{secretName: name, data: data}
	if r.Payloads != nil {
		r.Payloads.Add(checksum, desired)
	}
	desired.annotations = annotations
	return desired, nil
}

func (r *Reconciler) cachedPayload(checksum string) (desiredResource, bool) {
	if r.Payloads == nil {
		return desiredResource{}, false
	}
	known, found := r.Payloads.Get(checksum)
	if !found {
		return desiredResource{}, false
	}
	return known.(desiredResource), true
}

// carries says whether a ManagedResource refers to the payload already. Its annotations may still differ.
func (d desiredResource) carries(mr *resourcesv1alpha1.ManagedResource) bool {
	return mr != nil && len(mr.Spec.SecretRefs) == 1 && mr.Spec.SecretRefs[0].Name == d.secretName
}

// describes is true for a ManagedResource whose spec is as it would be written.
func (d desiredResource) describes(mr *resourcesv1alpha1.ManagedResource) bool {
	return d.carries(mr) && ptr.Deref(mr.Spec.Class, "") == v1beta1constants.SeedResourceManagerClass && !ptr.Deref(mr.Spec.KeepObjects, false)
}

// equals says whether writing would change nothing.
func (d desiredResource) equals(mr *resourcesv1alpha1.ManagedResource) bool {
	if !d.describes(mr) {
		return false
	}
	for key, value := range d.annotations {
		if mr.Annotations[key] != value {
			return false
		}
	}
	return mr.Labels[managedresources.LabelKeyOrigin] == druidv1alpha1.ManagedResourceOrigin
}

// ensureManagedResource writes the payload and the ManagedResource unless both are there already. It returns whether
// anything was written. The write fails with a conflict if the ManagedResource is another one than current by now.
func (r *execution) ensureManagedResource(ctx context.Context, run *engine.Run, desired desiredResource) (bool, error) {
	current := r.current
	etcd := run.Target.Etcd
	if r.Renderings != nil {
		r.Renderings.Record(etcd, desired.secretName, desired.data)
	}
	if desired.equals(current) {
		exists, err := r.payloadExists(ctx, etcd.Namespace, desired.secretName)
		if err != nil {
			return false, err
		}
		if exists || run.IsWithheld("Secret/"+desired.secretName) {
			return false, nil
		}
	}
	r.began = r.began || run.Target.Begins != nil // also if the result of the write is not known

	labels := map[string]string{managedresources.LabelKeyOrigin: druidv1alpha1.ManagedResourceOrigin}
	secretLabels := maps.Clone(labels)
	secretLabels[druidv1alpha1.LabelPartOfKey] = etcd.Name
	_, secret := managedresources.NewSecret(r.Client, etcd.Namespace, helper.ManagedResourceName(etcd), desired.data, true)
	if err := secret.AddLabels(secretLabels).Reconcile(ctx); err != nil {
		return false, fmt.Errorf("writing the payload of ManagedResource %s: %w", helper.ManagedResourceName(etcd), err)
	}

	err := managedresources.NewForSeed(versionedClient{Client: r.Client, current: current}, etcd.Namespace, helper.ManagedResourceName(etcd), false).
		WithLabels(labels).
		WithAnnotations(desired.annotations).
		WithSecretRef(desired.secretName).
		Reconcile(ctx)
	if apierrors.IsAlreadyExists(err) {
		// Either the cache lags behind the creation by the operator, or another controller created the object: the cache has only the operator's.
		return false, r.checkOrigin(ctx, etcd, err)
	}
	if err != nil {
		return false, fmt.Errorf("writing ManagedResource %s: %w", helper.ManagedResourceName(etcd), err)
	}
	return true, nil
}

func (r *Reconciler) checkOrigin(ctx context.Context, etcd *druidv1alpha1.Etcd, alreadyExists error) error {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := refuseOrigin(mr); err != nil {
		return err
	}
	return alreadyExists
}

// refuseOrigin refuses a ManagedResource that another controller created. Nil: the operator created it.
func refuseOrigin(mr *resourcesv1alpha1.ManagedResource) error {
	origin := mr.Labels[managedresources.LabelKeyOrigin]
	if origin == druidv1alpha1.ManagedResourceOrigin {
		return nil
	}
	return plan.Refused(druidv1alpha1.ErrorCodeSyncManagedResource, fmt.Errorf("metadata.name: ManagedResource %s exists and has the origin %q, not %q; delete it or name the Etcd otherwise", mr.Name, origin, druidv1alpha1.ManagedResourceOrigin))
}

// payloadExists reads only the metadata of the payload, which the caches hold. Client does not read Secrets from them. A payload that the
// cache does not have yet is read from the API server.
func (r *Reconciler) payloadExists(ctx context.Context, namespace, name string) (bool, error) {
	key, secret := client.ObjectKey{Namespace: namespace, Name: name}, metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.cached().Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, secret)
	}
	return err == nil, client.IgnoreNotFound(err)
}

// requestApply requests gardener-resource-manager to apply a ManagedResource now, unless that is requested already.
func (r *Reconciler) requestApply(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, repairs drift.Repairs) error {
	if mr.Annotations[v1beta1constants.GardenerOperation] == v1beta1constants.GardenerOperationReconcile {
		return nil
	}
	return r.recordRepairs(ctx, mr, repairs)
}

// recordRepairs requests gardener-resource-manager to apply a ManagedResource now, and records the repairs that this makes, also where an
// earlier request is pending. The resource manager does not watch what it applies, and its own period is an hour on seeds. The write
// fails if the ManagedResource has changed since it was read, since a cache that lags behind does not have the last repairs.
func (r *Reconciler) recordRepairs(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, repairs drift.Repairs) error {
	patch := client.MergeFromWithOptions(mr.DeepCopy(), client.MergeFromWithOptimisticLock{})
	mr = mr.DeepCopy()
	metav1.SetMetaDataAnnotation(&mr.ObjectMeta, druidv1alpha1.ManagedResourceAnnotationRepairs, repairs.String())
	metav1.SetMetaDataAnnotation(&mr.ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationReconcile)
	if err := r.Client.Patch(ctx, mr, patch); err != nil {
		return fmt.Errorf("requesting ManagedResource %s to be applied: %w", mr.Name, err)
	}
	return nil
}
