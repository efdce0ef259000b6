// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// StatefulSets is a fake controller that an etcd cluster needs next to the API server. It creates the pods of StatefulSets with
// the update strategy OnDelete, collects them as garbage, and removes the finalizers of PersistentVolumeClaims. It also
// simulates a kubelet with which every pod becomes ready immediately.
type StatefulSets struct {
	client  client.Client
	lock    sync.Mutex
	blocked sets.Set[string]
}

// AddToManager adds the fake controller to a manager. The controller reads and writes with the client uncached.
func (s *StatefulSets) AddToManager(mgr manager.Manager, uncached client.Client) error {
	s.client, s.blocked = uncached, sets.New[string]()
	return builder.ControllerManagedBy(mgr).
		Named("fake-statefulset").
		WithOptions(controller.Options{MaxConcurrentReconciles: 5}).
		For(&appsv1.StatefulSet{}).
		Owns(&corev1.Pod{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, claim client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: claim.GetNamespace(), Name: claim.GetLabels()["app.kubernetes.io/part-of"]}}}
		})).
		// The API server decrements disruptionsAllowed for each eviction, even if the pod is not deleted afterwards.
		Watches(&policyv1.PodDisruptionBudget{}, &handler.EnqueueRequestForObject{}).
		Complete(s)
}

// SetReadinessBlocked sets whether new pods in the namespace stay unready. The default is false.
func (s *StatefulSets) SetReadinessBlocked(namespace string, blocked bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if blocked {
		s.blocked.Insert(namespace)
	} else {
		s.blocked.Delete(namespace)
	}
}

func (s *StatefulSets) isReadinessBlocked(namespace string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.blocked.Has(namespace)
}

// Reconcile reconciles the pods of one StatefulSet.
func (s *StatefulSets) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	blocked := s.isReadinessBlocked(req.Namespace) // before the first read, because the test may change it meanwhile
	if err := s.releaseClaims(ctx, req); err != nil {
		return reconcile.Result{}, err
	}
	statefulSet := &appsv1.StatefulSet{}
	if err := s.client.Get(ctx, req.NamespacedName, statefulSet); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pods, err := s.podsOf(ctx, statefulSet)
	if err != nil {
		return reconcile.Result{}, err
	}
	if statefulSet.DeletionTimestamp != nil {
		err = s.collect(ctx, statefulSet, pods)
	} else {
		err = s.reconcile(ctx, statefulSet, pods)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || err == nil && blocked {
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return reconcile.Result{}, err
}

func (s *StatefulSets) podsOf(ctx context.Context, statefulSet *appsv1.StatefulSet) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := s.client.List(ctx, pods, client.InNamespace(statefulSet.Namespace), client.MatchingLabels(statefulSet.Spec.Selector.MatchLabels))
	return pods.Items, err
}

// collect simulates the garbage collector. It orphans or deletes the pods and removes its finalizer of the StatefulSet. The owners of other
// finalizers remove them.
func (s *StatefulSets) collect(ctx context.Context, statefulSet *appsv1.StatefulSet, pods []corev1.Pod) error {
	before := statefulSet.DeepCopy()
	orphans := controllerutil.RemoveFinalizer(statefulSet, metav1.FinalizerOrphanDependents)
	if !orphans && !controllerutil.RemoveFinalizer(statefulSet, metav1.FinalizerDeleteDependents) {
		return nil
	}
	for i := range pods {
		if orphans {
			before := pods[i].DeepCopy()
			pods[i].OwnerReferences = nil
			if err := s.client.Patch(ctx, &pods[i], client.MergeFrom(before)); err != nil {
				return err
			}
		} else if err := s.client.Delete(ctx, &pods[i], client.GracePeriodSeconds(0)); err != nil {
			return err
		}
	}
	return s.client.Patch(ctx, statefulSet, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (s *StatefulSets) reconcile(ctx context.Context, statefulSet *appsv1.StatefulSet, pods []corev1.Pod) error {
	revision := revisionOf(statefulSet)
	replicas := int(ptr.Deref(statefulSet.Spec.Replicas, 1))
	var ready, live int32
	for ordinal := range max(replicas, len(pods)) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: statefulSet.Namespace, Name: fmt.Sprintf("%s-%d", statefulSet.Name, ordinal)}}
		if ordinal >= replicas {
			if err := s.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return err
			}
			continue
		}
		if err := s.ensurePod(ctx, statefulSet, pod, ordinal, revision); err != nil {
			return err
		}
		live++
		if isReady(pod) {
			ready++
		}
	}

	before := statefulSet.DeepCopy()
	statefulSet.Status.ObservedGeneration = statefulSet.Generation
	statefulSet.Status.Replicas, statefulSet.Status.ReadyReplicas = live, ready
	statefulSet.Status.UpdateRevision = revision
	if err := s.client.Status().Patch(ctx, statefulSet, client.MergeFrom(before)); err != nil {
		return err
	}
	return s.allowDisruptions(ctx, client.ObjectKeyFromObject(statefulSet), live, ready)
}

// allowDisruptions simulates the PodDisruptionBudget controller. Without its status the API server rejects evictions.
func (s *StatefulSets) allowDisruptions(ctx context.Context, key client.ObjectKey, live, ready int32) error {
	budget := &policyv1.PodDisruptionBudget{}
	if err := s.client.Get(ctx, key, budget); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := budget.DeepCopy()
	desired := int32(budget.Spec.MinAvailable.IntValue()) // #nosec G115 -- at most 7 members
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, ExpectedPods: live, CurrentHealthy: ready, DesiredHealthy: desired,
		DisruptionsAllowed: max(0, ready-desired),
	}
	return s.client.Status().Patch(ctx, budget, client.MergeFrom(before))
}

func (s *StatefulSets) ensurePod(ctx context.Context, statefulSet *appsv1.StatefulSet, pod *corev1.Pod, ordinal int, revision string) error {
	err := s.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	if apierrors.IsNotFound(err) {
		if err := s.ensureClaims(ctx, statefulSet, ordinal); err != nil {
			return err
		}
		statefulSet.Spec.Template.ObjectMeta.DeepCopyInto(&pod.ObjectMeta)
		pod.Namespace, pod.Name = statefulSet.Namespace, fmt.Sprintf("%s-%d", statefulSet.Name, ordinal)
		metav1.SetMetaDataLabel(&pod.ObjectMeta, appsv1.ControllerRevisionHashLabelKey, revision)
		statefulSet.Spec.Template.Spec.DeepCopyInto(&pod.Spec)
		pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolumes(statefulSet, ordinal)...)
		err = s.client.Create(ctx, pod)
	}
	if err != nil {
		return err
	}
	return s.adoptAndStart(ctx, statefulSet, pod)
}

func (s *StatefulSets) adoptAndStart(ctx context.Context, statefulSet *appsv1.StatefulSet, pod *corev1.Pod) error {
	if !metav1.IsControlledBy(pod, statefulSet) {
		before := pod.DeepCopy()
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(statefulSet, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		if err := s.client.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	if isReady(pod) || s.isReadinessBlocked(pod.Namespace) {
		return nil
	}
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = addressOf(pod)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
	}
	return s.client.Status().Patch(ctx, pod, client.MergeFrom(before))
}

func (s *StatefulSets) ensureClaims(ctx context.Context, statefulSet *appsv1.StatefulSet, ordinal int) error {
	for _, template := range statefulSet.Spec.VolumeClaimTemplates {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: statefulSet.Namespace,
				Name:      fmt.Sprintf("%s-%s-%d", template.Name, statefulSet.Name, ordinal),
				Labels:    statefulSet.Spec.Selector.MatchLabels,
			},
			Spec: template.Spec,
		}
		if err := s.client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// releaseClaims removes the finalizers of PersistentVolumeClaims that are being deleted. Their pods no longer exist at that time.
func (s *StatefulSets) releaseClaims(ctx context.Context, req reconcile.Request) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := s.client.List(ctx, claims, client.InNamespace(req.Namespace), client.MatchingLabels{"app.kubernetes.io/part-of": req.Name}); err != nil {
		return err
	}
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp == nil || len(claims.Items[i].Finalizers) == 0 {
			continue
		}
		claims.Items[i].Finalizers = nil
		if err := s.client.Update(ctx, &claims.Items[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func claimVolumes(statefulSet *appsv1.StatefulSet, ordinal int) []corev1.Volume {
	var volumes []corev1.Volume
	for _, template := range statefulSet.Spec.VolumeClaimTemplates {
		volumes = append(volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("%s-%s-%d", template.Name, statefulSet.Name, ordinal)},
		}})
	}
	return volumes
}

// addressOf returns a pod IP that depends on the UID. A recreated pod therefore has a new IP.
func addressOf(pod *corev1.Pod) string {
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, pod.UID)
	sum := hash.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", byte(sum>>16), byte(sum>>8), byte(sum)) // #nosec G115 -- one byte of the hash each
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func revisionOf(statefulSet *appsv1.StatefulSet) string {
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, statefulSet.Spec.Template.String())
	return fmt.Sprintf("%s-%x", statefulSet.Name, hash.Sum32())
}
