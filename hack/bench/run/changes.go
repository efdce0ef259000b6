// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	// writers is the number of objects that are created or changed at the same time.
	writers = 16
	// revisionRate is the number of revisions per second of each cluster with load.
	revisionRate = 10
	// restartProfile is the length of the CPU profile after a restart.
	restartProfile = 20 * time.Second
)

func (r *runner) keys() []client.ObjectKey {
	keys := make([]client.ObjectKey, 0, r.Etcds)
	for index := range r.Etcds {
		keys = append(keys, client.ObjectKeyFromObject(etcdOf(index, r.Fleet)))
	}

	return keys
}

// forAll calls do with each index below count, with some of them at the same time.
func forAll(ctx context.Context, count int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for index := range count {
		group.Go(func() error { return do(ctx, index) })
	}

	return group.Wait()
}

// prepareNamespaces creates what exists before the Etcds.
func (r *runner) prepareNamespaces(ctx context.Context) error {
	return forAll(ctx, (r.Etcds+1)/2, func(ctx context.Context, index int) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(2 * index)}}
		if err := r.client.Create(ctx, namespace); err != nil {
			return fmt.Errorf("creating a namespace: %w", err)
		}

		return r.client.Create(ctx, backupSecretIn(namespace.Name))
	})
}

func managedResourceTime(p progress) time.Time { return p.managedResource }
func statefulSetTime(p progress) time.Time     { return p.statefulSet }
func completeTime(p progress) time.Time        { return p.complete }

// create creates all Etcds as fast as the API server accepts them.
func (r *runner) create(ctx context.Context, now clock) ([]report.Duration, error) {
	err := forAll(ctx, r.Etcds, func(ctx context.Context, index int) error {
		etcd := etcdOf(index, r.Fleet)
		r.tracker.begin(client.ObjectKeyFromObject(etcd))

		return r.client.Create(ctx, etcd)
	})
	if err != nil {
		return nil, fmt.Errorf("creating the Etcds: %w", err)
	}
	var durations []report.Duration
	for _, awaited := range []struct {
		name string
		get  func(progress) time.Time
	}{{"all ManagedResources exist", managedResourceTime}, {"all StatefulSets exist", statefulSetTime}, {"all Etcds are ready", completeTime}} {
		end, err := r.tracker.await(ctx, awaited.name, r.keys(), awaited.get)
		if err != nil {
			return nil, err
		}
		durations = append(durations, now.until(awaited.name, end))
	}

	return durations, r.awaitNoWrites(ctx)
}

// idle waits.
func (r *runner) idle(ctx context.Context, _ clock) ([]report.Duration, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(r.Idle):
		return nil, nil
	}
}

// idleWithLoad waits while clients write to all clusters.
func (r *runner) idleWithLoad(ctx context.Context, now clock) ([]report.Duration, error) {
	r.stub.AdvanceRevisions(revisionRate)
	defer r.stub.AdvanceRevisions(0)

	return r.idle(ctx, now)
}

// restart restarts the operator, and waits until it has reconciled all Etcds.
func (r *runner) restart(ctx context.Context, now clock) ([]report.Duration, error) {
	r.operator.stop()
	now.start = time.Now()
	if err := r.operator.start(ctx); err != nil {
		return nil, err
	}
	durations := []report.Duration{now.until("caches are in sync", time.Now())}
	finished := r.startProfile(ctx, phaseRestart, restartProfile)
	defer func() { <-finished }()
	var idleSince time.Time // the queues are empty for a moment before the first objects are added
	// The metrics of thousands of Etcds cost CPU time.
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		busy, err := r.operator.isBusy(ctx)
		if busy {
			idleSince = time.Time{}
		} else if idleSince.IsZero() {
			idleSince = time.Now()
		}

		return !busy && time.Since(idleSince) > r.Quiet/4, err
	})

	return append(durations, now.until("all queues are empty", idleSince)), err
}

// change changes the label of the pods of an Etcd.
func (r *runner) change(ctx context.Context, key client.ObjectKey, value string) error {
	r.tracker.begin(key)
	etcd := &druidv1alpha1.Etcd{}
	etcd.Namespace, etcd.Name = key.Namespace, key.Name
	if err := r.client.Patch(ctx, etcd, mergePatch(`{"spec":{"labels":{%q:%q}}}`, changedLabel, value)); err != nil {
		return fmt.Errorf("changing Etcd %s: %w", key, err)
	}

	return nil
}

// changeSome changes some Etcds, one at a time.
func (r *runner) changeSome(ctx context.Context, _ clock) ([]report.Duration, error) {
	keys := r.keys()
	keys = keys[:min(max(r.Samples, 1), len(keys))]
	var latencies []float64
	for _, key := range keys {
		begun := time.Now()
		if err := r.change(ctx, key, "single"); err != nil {
			return nil, err
		}
		end, err := r.tracker.await(ctx, "the ManagedResource of "+key.String(), []client.ObjectKey{key}, managedResourceTime)
		if err != nil {
			return nil, err
		}
		latencies = append(latencies, end.Sub(begun).Seconds())
	}
	if _, err := r.tracker.await(ctx, "all changes", keys, completeTime); err != nil {
		return nil, err
	}
	slices.Sort(latencies)
	percentile := func(percent int) float64 { return latencies[(len(latencies)-1)*percent/100] }

	return []report.Duration{
		{Name: "from a change to the ManagedResource, median", Seconds: percentile(50)},
		{Name: "from a change to the ManagedResource, 99th percentile", Seconds: percentile(99)},
	}, r.awaitNoWrites(ctx)
}

// changeAll changes all Etcds at once, and waits until all pods were replaced.
func (r *runner) changeAll(ctx context.Context, now clock) ([]report.Duration, error) {
	keys := r.keys()
	if err := forAll(ctx, len(keys), func(ctx context.Context, index int) error { return r.change(ctx, keys[index], "all") }); err != nil {
		return nil, err
	}
	complete, err := r.tracker.await(ctx, "all changes", keys, completeTime)
	if err != nil {
		return nil, err
	}

	return []report.Duration{now.until("all changes are complete", complete)}, r.awaitNoWrites(ctx)
}

// loseNode makes a node with its members stop to respond, and waits until the operator has reported all of them.
func (r *runner) loseNode(ctx context.Context, now clock) ([]report.Duration, error) {
	lost := nodeOf(1, r.PodCIDR)
	// Another node responds. If all nodes are lost, the controller manager assumes that its own network has failed.
	if err := r.client.Create(ctx, nodeOf(r.nodes()+1, r.PodCIDR)); err != nil {
		return nil, fmt.Errorf("creating a node: %w", err)
	}
	if err := r.client.Patch(ctx, lost, mergePatch(`{"metadata":{"annotations":{%q:null}}}`, kwokAnnotation)); err != nil {
		return nil, fmt.Errorf("stopping node %s: %w", lost.Name, err)
	}
	begun := time.Now()
	keys := r.stub.Lose(lost.Name)
	if len(keys) == 0 {
		return nil, fmt.Errorf("node %s has no members", lost.Name)
	}
	reported, err := r.tracker.await(ctx, "all lost members", keys, func(p progress) time.Time {
		if p.unready.Before(begun) {
			return time.Time{}
		}

		return p.unready
	})
	if err != nil {
		return nil, err
	}
	r.Log.Info("A node was lost", "members", len(keys))

	return []report.Duration{now.until("all lost members are reported", reported)}, nil
}

// mergePatch returns a merge patch. The arguments are those of the format.
func mergePatch(format string, arguments ...any) client.Patch {
	return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, arguments...))
}
