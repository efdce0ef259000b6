// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const (
	// period is the time between two decisions while Etcds wait or are updated.
	period = 10 * time.Second
	// firstDelay is the time from the first report to a decision. Etcds that report meanwhile are considered together.
	firstDelay = time.Second
)

// Fleet reads all Etcds.
type Fleet interface {
	// Clusters returns the Etcds that are rendered and not being deleted. Their field Waits is empty.
	Clusters(ctx context.Context) ([]rollout.Cluster, error)
}

// Coordinator grants updates. It is a runnable of the manager, in the leader alone, and is safe for concurrent use.
type Coordinator struct {
	fleet  Fleet
	limits rollout.Limits
	clock  clock.Clock

	lock   sync.Mutex
	grants rollout.Grants
	// waiting are the changes for which Etcds wait, as their last reconciliations have reported.
	waiting map[string]state.Change
	delays  map[string]rollout.Delay
	changes []rollout.Progressed

	wake   chan struct{}
	events chan event.GenericEvent
}

// NewCoordinator returns a Coordinator, which the caller adds to a manager.
func NewCoordinator(fleet Fleet, limits rollout.Limits, clock clock.Clock) *Coordinator {
	return &Coordinator{
		fleet: fleet, limits: limits, clock: clock, waiting: map[string]state.Change{}, delays: map[string]rollout.Delay{},
		wake: make(chan struct{}, 1), events: make(chan event.GenericEvent),
	}
}

// Source triggers a reconciliation of an Etcd when it has a grant, and when the reason changes for which it waits.
func (c *Coordinator) Source() source.TypedSource[reconcile.Request] {
	return source.Channel(c.events, &handler.EnqueueRequestForObject{})
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Coordinator) NeedLeaderElection() bool { return true }

// Start decides while Etcds wait or are updated, until the context ends.
func (c *Coordinator) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		for after := firstDelay; after > 0; {
			select {
			case <-ctx.Done():
				return nil
			case <-c.clock.After(after):
			}
			changed, isBusy, err := c.Decide(ctx)
			if err != nil {
				logf.FromContext(ctx).Error(err, "Rollout not decided")
			}
			if after = period; !isBusy && err == nil {
				after = 0
			}
			if !c.enqueue(ctx, changed) {
				return nil
			}
		}
	}
}

// enqueue triggers reconciliations. False: the context has ended.
func (c *Coordinator) enqueue(ctx context.Context, keys []string) bool {
	for _, key := range keys {
		namespace, name, _ := strings.Cut(key, "/")
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		select {
		case <-ctx.Done():
			return false
		case c.events <- event.GenericEvent{Object: etcd}:
		}
	}

	return true
}

// Decide grants updates. It returns the Etcds to reconcile, and whether Etcds wait or are updated.
func (c *Coordinator) Decide(ctx context.Context) (changed []string, isBusy bool, err error) {
	clusters, err := c.fleet.Clusters(ctx) // without the lock: no reconciliation waits for the caches
	if err != nil {
		return nil, true, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	now := c.clock.Now()
	known, isBusy := c.addWaiting(clusters)
	decision := rollout.Decide(c.grants.Merge(clusters, now), c.limits, now)
	c.grants.Add(decision.Grants, now)
	changed = c.changedBy(decision, known)
	c.delays = decision.Delays
	setMetrics(c.changes, decision.Changes)
	c.changes = decision.Changes
	for key, granted := range decision.Grants {
		logf.FromContext(ctx).Info("Update to newer defaults granted", "etcd", key, "from", granted.From, "to", granted.To, "canary", granted.Canary)
	}

	return changed, isBusy || len(c.waiting) > 0 || len(decision.Grants) > 0, nil
}

// addWaiting adds to the clusters for what they wait. It returns the keys of all clusters, and whether an update of one has not passed.
func (c *Coordinator) addWaiting(clusters []rollout.Cluster) (known map[string]bool, isUpdating bool) {
	known = map[string]bool{}
	for i := range clusters {
		cluster := &clusters[i]
		known[cluster.Key] = true
		if change, waits := c.waiting[cluster.Key]; waits && change.To != cluster.Defaults {
			cluster.Defaults, cluster.Waits = change.From, change.To
		}
		isUpdating = isUpdating || cluster.Update.IsUnfinished()
	}
	maps.DeleteFunc(c.waiting, func(key string, _ state.Change) bool { return !known[key] })

	return known, isUpdating
}

// changedBy returns the Etcds with a grant, and those for which the reason to wait changes.
func (c *Coordinator) changedBy(decision rollout.Decision, known map[string]bool) []string {
	changed := slices.Collect(maps.Keys(decision.Grants))
	for key, delay := range decision.Delays {
		if before, had := c.delays[key]; !had || before != delay {
			changed = append(changed, key)
		}
	}
	for key := range c.delays {
		_, has := decision.Delays[key]
		if _, isGranted := decision.Grants[key]; !has && !isGranted && known[key] {
			changed = append(changed, key)
		}
	}

	return changed
}

// Begin returns the update that an Etcd may begin. Nil: none. The caller calls End after the reconciliation.
func (c *Coordinator) Begin(etcd client.ObjectKey) *state.Rollout {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.grants.Begin(etcd.String())
}

// Report is what a reconciliation of an Etcd has found and done.
type Report struct {
	// Outcome is what it did with a grant, if it had one.
	Outcome rollout.Outcome
	// Waits is the change for which the Etcd waits. Nil: it does not wait.
	Waits *state.Change
	// Updating is true until an update has passed.
	Updating bool
}

// End ends a reconciliation, and returns why the Etcd waits, or why its update has failed. Nil: neither. An interrupted reconciliation reports nothing.
func (c *Coordinator) End(etcd client.ObjectKey, report Report) *rollout.Delay {
	c.lock.Lock()
	defer c.lock.Unlock()
	key := etcd.String()
	c.grants.End(key, report.Outcome, c.clock.Now())
	if report.Outcome == rollout.Interrupted {
		return nil
	}
	delete(c.waiting, key)
	if report.Waits != nil {
		c.waiting[key] = *report.Waits
	}
	if report.Waits != nil || report.Updating {
		select {
		case c.wake <- struct{}{}:
		default: // it decides soon
		}
	}
	delay, isDelayed := c.delays[key]
	switch {
	case report.Waits != nil && (!isDelayed || delay.Change != *report.Waits && delay.Reason != rollout.UpdateFailed):
		return &rollout.Delay{Change: *report.Waits, Reason: rollout.WaitingForCanary}
	case !isDelayed, report.Waits == nil && !report.Updating:
		return nil
	default:
		return &delay
	}
}

// Discard discards the state of an Etcd that is deleted.
func (c *Coordinator) Discard(etcd client.ObjectKey) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.waiting, etcd.String())
	delete(c.delays, etcd.String())
}
