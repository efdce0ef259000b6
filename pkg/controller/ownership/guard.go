// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// etcdDruidName is the name that gardenlet and gardener-operator give to all objects of their etcd-druid.
	etcdDruidName = "etcd-druid"
	// identityMark is the suffix of the holder identity of this operator in the Lease of the leader election. It distinguishes
	// a pod with the binary of this operator from one with that of etcd-druid, regardless of the name of its Deployment.
	identityMark = "_gardener-extension-etcd-druid"
	// checkPeriod is the time between two checks.
	checkPeriod = 5 * time.Second
)

// EtcdDruidKey is the key of the Deployment, and of the ManagedResource, of the etcd-druid that gardenlet installs.
var EtcdDruidKey = client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: etcdDruidName}

// ErrEtcdDruidActive ends an active process when the etcd-druid of gardenlet runs again. The next process is standby.
var ErrEtcdDruidActive = errors.New("the etcd-druid of gardenlet is at work again, so that this operator has to stop")

// Guard checks the etcd-druid of gardenlet, and decides whether this process must be standby.
type Guard struct {
	// Client reads from the API server. For a takeover it also stops the etcd-druid.
	Client client.Client
	// Lease is the Lease of the leader election of this operator.
	Lease client.ObjectKey
	// Hostname is the name of the pod of this process, if it runs in one.
	Hostname string
	// TakeOver makes the Guard stop the etcd-druid, instead of waiting as standby.
	TakeOver bool
	// Recorder writes events about the Deployment of the etcd-druid. Nil: none.
	Recorder events.EventRecorder
	// Elected is closed when this process becomes the leader.
	Elected <-chan struct{}
	// Clock measures the time between checks. Nil: the real clock.
	Clock clock.Clock

	lock    sync.Mutex
	reason  string
	checked bool
	// announced is true after an event about the present standby.
	announced bool
	// failure is the error of the last check. Nil: it succeeded, or there was none.
	failure error
	// inPlace is the pod of this process in the Deployment of gardenlet's etcd-druid. Nil: it runs in no such pod.
	inPlace *corev1.Pod
}

// StandbyReason returns the reason why this process must not act. Empty: it may act.
func (g *Guard) StandbyReason() string {
	g.lock.Lock()
	defer g.lock.Unlock()
	if !g.checked {
		return "the etcd-druid of gardenlet has not been checked yet"
	}
	if g.reason != "" && g.failure != nil {
		return fmt.Sprintf("%s; the last check failed: %s", g.reason, g.failure)
	}

	return g.reason
}

// NeedLeaderElection is false: the Guard runs in every instance, since a standby instance must not be elected.
func (g *Guard) NeedLeaderElection() bool { return false }

// Start checks periodically until the context ends. It returns an error if this process is the leader although it must be
// standby.
func (g *Guard) Start(ctx context.Context) error {
	clock := g.Clock
	if clock == nil {
		clock = realClock
	}
	for {
		if err := g.Check(ctx); err != nil {
			logf.FromContext(ctx).Error(err, "Failed to check the etcd-druid of gardenlet")
		}
		if reason := g.StandbyReason(); reason != "" && g.isElected() {
			return fmt.Errorf("%w: %s", ErrEtcdDruidActive, reason)
		}
		if err := g.AllowNetwork(ctx); err != nil {
			logf.FromContext(ctx).Error(err, "Failed to allow connections to the etcds")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.After(checkPeriod):
		}
	}
}

func (g *Guard) isElected() bool {
	select {
	case <-g.Elected:
		return true
	default:
		return false
	}
}

// Check checks the etcd-druid once. If a read fails, the last result stays, and StandbyReason contains the error.
func (g *Guard) Check(ctx context.Context) error {
	err := g.check(ctx)
	g.lock.Lock()
	defer g.lock.Unlock()
	g.failure = err

	return err
}

func (g *Guard) check(ctx context.Context) error {
	deployment := &appsv1.Deployment{}
	if err := g.Client.Get(ctx, EtcdDruidKey, deployment); err != nil {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading Deployment %s: %w", EtcdDruidKey, err)
		}
		g.setInPlace(nil)
		g.setReason(ctx, nil, "")

		return nil
	}
	pods, err := g.podsOf(ctx, deployment)
	if apierrors.IsForbidden(err) { // with watchNamespaces, the operator has no permissions in the namespace of the Deployment
		g.setReason(ctx, deployment, fmt.Sprintf("Deployment %s exists, and this operator cannot check whether it is active: %s; delete the Deployment, or allow the operator to list the pods of its namespace", EtcdDruidKey, err))

		return nil
	}
	if err != nil {
		return err
	}
	g.setInPlace(pods)
	isThisOperator, err := g.runsThisOperator(ctx, pods)
	if err != nil {
		return err
	}
	replicas := ptr.Deref(deployment.Spec.Replicas, 1)
	switch {
	case isThisOperator, replicas == 0 && len(pods) == 0:
		g.setReason(ctx, deployment, "")
	case g.TakeOver:
		isGarden, err := g.isGarden(ctx)
		if err != nil {
			return err
		}
		if isGarden {
			g.setReason(ctx, deployment, fmt.Sprintf("Deployment %s is gardener-operator's, which waits for it whenever it reconciles the Garden: it is not taken over; run this operator in place of etcd-druid instead", EtcdDruidKey))

			return nil
		}
		g.setReason(ctx, deployment, fmt.Sprintf("Deployment %s of gardenlet's etcd-druid is being switched off, and has %d pods yet", EtcdDruidKey, len(pods)))

		return g.switchOff(ctx, deployment)
	default:
		g.setReason(ctx, deployment, fmt.Sprintf("Deployment %s of gardenlet's etcd-druid is at work with %d replicas and %d pods; set predecessor to TakeOver to take the seed over", EtcdDruidKey, replicas, len(pods)))
	}

	return nil
}

// isGarden is true in the runtime cluster of a garden.
func (g *Guard) isGarden(ctx context.Context) (bool, error) {
	gardens := &metav1.PartialObjectMetadataList{}
	gardens.SetGroupVersionKind(operatorv1alpha1.SchemeGroupVersion.WithKind("GardenList"))
	if err := g.Client.List(ctx, gardens, client.Limit(1)); err != nil {
		if meta.IsNoMatchError(err) {
			return false, nil
		}

		return false, fmt.Errorf("listing Gardens: %w", err)
	}

	return len(gardens.Items) > 0, nil
}

// podsOf returns the pods of the Deployment that run or may start. It omits pods that have failed or succeeded: for example,
// an evicted pod exists until it is deleted.
func (g *Guard) podsOf(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of Deployment %s: %w", EtcdDruidKey, err)
	}
	pods := &corev1.PodList{}
	if err := g.Client.List(ctx, pods, client.InNamespace(deployment.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing the pods of Deployment %s: %w", EtcdDruidKey, err)
	}

	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	}), nil
}

// runsThisOperator is true if the Deployment runs this operator in place of etcd-druid. Then this process runs in one of its
// pods, or one of its pods is the leader with the identityMark. Such instances take part in the same leader election and need
// no guard.
func (g *Guard) runsThisOperator(ctx context.Context, pods []corev1.Pod) (bool, error) {
	lease := &coordinationv1.Lease{}
	if err := g.Client.Get(ctx, g.Lease, lease); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Lease %s: %w", g.Lease, err)
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	for _, pod := range pods {
		if pod.Name == g.Hostname || strings.HasSuffix(holder, identityMark) && strings.HasPrefix(holder, pod.Name+"_") {
			return true, nil
		}
	}

	return false, nil
}

// setReason caches the result of a check. It reports a change with a log message and an event.
func (g *Guard) setReason(ctx context.Context, deployment *appsv1.Deployment, reason string) {
	g.lock.Lock()
	isChanged := !g.checked && reason != "" || g.checked && (reason == "") != (g.reason == "")
	g.reason, g.checked = reason, true
	// The first check precedes the Recorder, so that its event follows with a later check.
	announce := reason != "" && !g.announced && g.Recorder != nil && deployment != nil
	g.announced = reason != "" && (g.announced || announce)
	g.lock.Unlock()

	standingBy.Set(map[bool]float64{true: 1}[reason != ""])
	if announce {
		g.Recorder.Eventf(deployment, nil, corev1.EventTypeNormal, "StandingBy", "StandBy", "gardener-extension-etcd-druid is standby: %s", reason)
	}
	if !isChanged {
		return
	}
	if reason == "" {
		logf.FromContext(ctx).Info("Standby ended")

		return
	}
	logf.FromContext(ctx).Info("Standby", "reason", reason)
}
