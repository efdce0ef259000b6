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
	// etcdDruidName is the name that gardenlet and gardener-operator give to everything of their etcd-druid.
	etcdDruidName = "etcd-druid"
	// identityMark is at the end of what our instances call themselves in the Lease of the election. It tells a pod with our
	// binary from one with etcd-druid's, whatever its Deployment is called.
	identityMark = "_gardener-extension-etcd-druid"
	// checkPeriod is the time between two looks.
	checkPeriod = 5 * time.Second
)

// Predecessor is the Deployment of the etcd-druid that gardenlet installs.
var EtcdDruidKey = client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: etcdDruidName}

// ErrEtcdDruidActive ends a process that acts when the etcd-druid is back. The next one stands by.
var ErrEtcdDruidActive = errors.New("the etcd-druid of gardenlet is at work again, so that this operator has to stop")

// Guard looks after the etcd-druid, and says whether this process has to stand by for it.
type Guard struct {
	// Client reads from the API server, and switches the etcd-druid off where it is to be taken over.
	Client client.Client
	// Lease is the Lease of our election.
	Lease client.ObjectKey
	// Hostname is the name of the own pod, where the process runs in one.
	Hostname string
	// TakeOver switches the etcd-druid off instead of standing by for it.
	TakeOver bool
	// Recorder writes events about the Deployment of the etcd-druid. Nil: none.
	Recorder events.EventRecorder
	// Elected is closed when this process leads.
	Elected <-chan struct{}
	// Clock tells the time between looks. Nil: the real one.
	Clock clock.Clock

	lock    sync.Mutex
	reason  string
	checked bool
}

// StandbyReason says why this process must not act. Empty: it may.
func (g *Guard) StandbyReason() string {
	g.lock.Lock()
	defer g.lock.Unlock()
	if !g.checked {
		return "nobody has looked for the etcd-druid of gardenlet yet"
	}

	return g.reason
}

// NeedLeaderElection makes the guard look in every instance, since only those that need not stand by may be elected.
func (g *Guard) NeedLeaderElection() bool { return false }

// Start looks until the context ends, or this process leads although it has to stand by.
func (g *Guard) Start(ctx context.Context) error {
	clock := g.Clock
	if clock == nil {
		clock = realClock
	}
	for {
		if err := g.Check(ctx); err != nil {
			logf.FromContext(ctx).Error(err, "Looking for the etcd-druid of gardenlet failed")
		}
		if reason := g.StandbyReason(); reason != "" && g.isElected() {
			return fmt.Errorf("%w: %s", ErrEtcdDruidActive, reason)
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

// Check looks once. What cannot be read changes nothing.
func (g *Guard) Check(ctx context.Context) error {
	deployment := &appsv1.Deployment{}
	if err := g.Client.Get(ctx, EtcdDruidKey, deployment); err != nil {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading Deployment %s: %w", EtcdDruidKey, err)
		}
		g.setReason(ctx, nil, "")

		return nil
	}
	pods, err := g.podsOf(ctx, deployment)
	if err != nil {
		return err
	}
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

// podsOf are the pods of the Deployment that act or may come to act: one that was evicted, or has ended otherwise, stays on
// record for as long as nobody deletes it.
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

// runsThisOperator is true when the Deployment runs our binary in place of etcd-druid's: the own pod is one of its pods, or one of them
// leads under one of our names. Such instances take part in the one election and need no guard.
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

// setReason remembers what a look came to, and tells it when it is news.
func (g *Guard) setReason(ctx context.Context, deployment *appsv1.Deployment, reason string) {
	g.lock.Lock()
	isChanged := !g.checked && reason != "" || g.checked && (reason == "") != (g.reason == "")
	g.reason, g.checked = reason, true
	g.lock.Unlock()

	standingBy.Set(map[bool]float64{true: 1}[reason != ""])
	if !isChanged {
		return
	}
	if reason == "" {
		logf.FromContext(ctx).Info("Standing by no longer")

		return
	}
	logf.FromContext(ctx).Info("Standing by", "reason", reason)
	if g.Recorder != nil && deployment != nil {
		g.Recorder.Eventf(deployment, nil, corev1.EventTypeNormal, "StandingBy", "StandBy", "gardener-extension-etcd-druid stands by: %s", reason)
	}
}
