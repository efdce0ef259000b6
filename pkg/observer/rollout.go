// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

func (r *reader) readManagedResource(ctx context.Context) {
	name := helper.ManagedResourceName(r.etcd)
	r.observation.ManagedResource.Name = name
	object := &resourcesv1alpha1.ManagedResource{}
	if err := r.Reader.Get(ctx, r.key(name), object); err != nil {
		if !apierrors.IsNotFound(err) {
			r.failed(etcdcluster.SectionManagedResource, err)
		}

		return
	}
	r.observation.ManagedResource = etcdcluster.ManagedResource{
		Exists:             true,
		Name:               name,
		UID:                object.UID,
		Deleting:           object.DeletionTimestamp != nil,
		GenerationObserved: object.Status.ObservedGeneration == object.Generation,
		ReconcileRequested: object.Annotations[v1beta1constants.GardenerOperation] == v1beta1constants.GardenerOperationReconcile,
		Applied:            conditionFact(object.Status.Conditions, resourcesv1alpha1.ResourcesApplied),
		Healthy:            conditionFact(object.Status.Conditions, resourcesv1alpha1.ResourcesHealthy),
		Progressing:        conditionFact(object.Status.Conditions, resourcesv1alpha1.ResourcesProgressing),
	}
	r.observation.ManagedResource.AppliesStatefulSet = object.Labels[managedresources.LabelKeyOrigin] == druidv1alpha1.ManagedResourceOrigin &&
		slices.ContainsFunc(object.Status.Resources, func(reference resourcesv1alpha1.ObjectReference) bool {
			return reference.GroupVersionKind().GroupKind() == appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind() &&
				reference.Namespace == r.etcd.Namespace && reference.Name == helper.StatefulSetName(r.etcd)
		})
	r.hasRecord = object.Annotations[druidv1alpha1.ManagedResourceAnnotationState] != ""
	recorded, err := state.Decode(object.Annotations)
	if err != nil {
		r.failed(etcdcluster.SectionManagedResource, fmt.Errorf("ManagedResource %s: %w", name, err))
	}
	r.observation.State = recorded
	if store := r.observation.State.Store; store != nil {
		r.observation.StoreLocation = store.String()
	}
}

// readInitialClusterToken reads the token of a cluster that runs without a ManagedResource from the configuration of etcd-druid. The operator
// records the token when it adopts the cluster.
func (r *reader) readInitialClusterToken(ctx context.Context) {
	if r.observation.ManagedResource.Exists || !r.observation.StatefulSet.Exists {
		return
	}
	configMap := &corev1.ConfigMap{}
	if err := r.APIReader.Get(ctx, r.key(helper.ConfigMapName(r.etcd)), configMap); err != nil {
		if !apierrors.IsNotFound(err) {
			r.failed(etcdcluster.SectionStatefulSet, err)
		}

		return
	}
	config := struct {
		Token string `json:"initial-cluster-token"`
	}{}
	if err := yaml.Unmarshal([]byte(configMap.Data["etcd.conf.yaml"]), &config); err == nil { // else no member starts with it
		r.observation.State.InitialClusterToken = config.Token
	}
}

// isAdopting is true for a cluster that runs without a record: the operator has never rendered it, or the record is lost.
func (r *reader) isAdopting() bool {
	return !r.hasRecord && r.observation.StatefulSet.Exists
}

// readAdoptedVersion sets the version of etcd of a cluster that runs without a record. It is the newest one of
// the versions that members report, and of the image of etcd-wrapper, to which the pods may be changing. The operator records it when it adopts the
// cluster. Empty: none is known.
func (r *reader) readAdoptedVersion() {
	if !r.isAdopting() {
		return
	}
	version := etcdversion.OfWrapper(r.observation.StatefulSet.EtcdImage)
	for _, member := range r.observation.Etcd.Members {
		if minor := etcdversion.MinorOf(member.Version); minor != "" {
			version = etcdversion.Max(cmp.Or(version, minor), minor)
		}
	}
	r.observation.State.EtcdVersion = version
}

func conditionFact(conditions []gardencorev1beta1.Condition, conditionType gardencorev1beta1.ConditionType) etcdcluster.ConditionFact {
	for _, condition := range conditions {
		if condition.Type == conditionType {
			return etcdcluster.ConditionFact{
				Status:             string(condition.Status),
				Reason:             condition.Reason,
				Message:            condition.Message,
				LastTransitionTime: condition.LastTransitionTime.Time,
				LastUpdateTime:     condition.LastUpdateTime.Time,
			}
		}
	}

	return etcdcluster.ConditionFact{}
}

func (r *reader) readStatefulSet(ctx context.Context) {
	object := &appsv1.StatefulSet{}
	if err := r.Reader.Get(ctx, r.key(helper.StatefulSetName(r.etcd)), object); err != nil {
		if !apierrors.IsNotFound(err) {
			r.failed(etcdcluster.SectionStatefulSet, err)
		}

		return
	}
	r.statefulSet = object
	_, hasScaleUpAnnotation := object.Annotations[etcdcluster.ScaleUpAnnotation]
	r.observation.StatefulSet = etcdcluster.StatefulSet{
		Exists:              true,
		Name:                object.Name,
		UID:                 object.UID,
		OwnerUID:            ownerUID(object),
		Foreign:             ownerUID(object) != "" && ownerUID(object) != r.etcd.UID && !helper.IsOwnedByPrevious(object, r.etcd),
		Deleting:            object.DeletionTimestamp != nil,
		AwaitsRelease:       object.DeletionTimestamp != nil && slices.Contains(object.Finalizers, druidv1alpha1.ReleasePodsFinalizerName) && !slices.Contains(object.Finalizers, metav1.FinalizerOrphanDependents),
		HasReleaseFinalizer: slices.Contains(object.Finalizers, druidv1alpha1.ReleasePodsFinalizerName),
		Generation:          object.Generation,
		ObservedGeneration:  object.Status.ObservedGeneration,
		SpecReplicas:        ptr.Deref(object.Spec.Replicas, 1),
		Replicas:            object.Status.Replicas,
		ReadyReplicas:       object.Status.ReadyReplicas,
		UpdateRevision:      object.Status.UpdateRevision,
		Rendering:           etcdcluster.RenderingFor(object),
		Template:            object.Annotations[etcdcluster.TemplateAnnotation],
		Store:               etcdcluster.StoreFingerprint(object.Spec.Template.Spec),
		StoreSecret:         etcdcluster.StoreSecretName(object.Spec.Template.Spec),
		LocalStore:          etcdcluster.LocalStoreFolder(object.Spec.Template.Spec),
		TLS:                 mountedTLSFor(object.Spec.Template.Spec.Volumes),
		ClientPort:          portFor(object.Spec.Template.Spec.Containers, "client"),
		PeerPort:            portFor(object.Spec.Template.Spec.Containers, "server"),
		HasPreStopHook:      hasPreStopHook(object.Spec.Template.Spec.Containers),
		EtcdImage:           imageOf(object.Spec.Template.Spec.Containers, etcdcluster.ContainerEtcd),

		HasScaleUpAnnotation: hasScaleUpAnnotation,
	}
}

func imageOf(containers []corev1.Container, name string) string {
	for _, container := range containers {
		if container.Name == name {
			return container.Image
		}
	}

	return ""
}

// ownerUID is the UID of the controlling owner; empty when there is none.
func ownerUID(object metav1.Object) types.UID {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return owner.UID
	}

	return ""
}
