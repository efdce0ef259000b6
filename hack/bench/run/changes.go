// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// profileReader is the ServiceAccount that may read profiles of the operator.
	profileReader = "bench-profiles"
)

func (r *runner) keys() []client.ObjectKey {
	keys := make([]client.ObjectKey, 0, r.Etcds)
	for index := range r.Etcds {
		keys = append(keys, client.ObjectKeyFromObject(etcdOf(index, r.Fleet)))
	}

	return keys
}

// prepareNamespaces creates what exists before the Etcds.
func (r *runner) prepareNamespaces(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, namespace := range namespaces(r.Etcds) {
		group.Go(func() error {
			if err := r.client.Create(ctx, namespace); err != nil {
				return err
			}

			return r.client.Create(ctx, backupSecretIn(namespace.Name))
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating the namespaces: %w", err)
	}

	return nil
}

// allowProfiles creates the ServiceAccount that may read profiles.
func allowProfiles(ctx context.Context, c client.Client) error {
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: profileReader}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: profileReader},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "extensions.gardener.cloud:" + operatorName + ":profiling"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: profileReader}},
		},
	} {
		if err := ignoreExisting(c.Create(ctx, object)); err != nil {
			return fmt.Errorf("allowing to read profiles: %w", err)
		}
	}

	return nil
}

func managedResourceTime(p progress) time.Time { return p.managedResource }
func statefulSetTime(p progress) time.Time     { return p.statefulSet }
func completeTime(p progress) time.Time        { return p.complete }

// create creates all Etcds as fast as the API server accepts them.
func (r *runner) create(ctx context.Context, now clock) ([]report.Duration, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for index := range r.Etcds {
		group.Go(func() error {
			etcd := etcdOf(index, r.Fleet)
			r.tracker.begin(client.ObjectKeyFromObject(etcd), time.Now())

			return r.client.Create(groupCtx, etcd)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("creating the Etcds: %w", err)
	}
	durations := []report.Duration{now.until("all Etcds exist", time.Now())}
	keys := r.keys()
	for _, awaited := range []struct {
		name string
		get  func(progress) time.Time
	}{{"all ManagedResources exist", managedResourceTime}, {"all StatefulSets exist", statefulSetTime}, {"all Etcds are ready", completeTime}} {
		end, err := r.tracker.await(ctx, awaited.name, keys, awaited.get)
		if err != nil {
			return nil, err
		}
		durations = append(durations, now.until(awaited.name, end))
	}
	latencies, err := percentiles("from an Etcd to its ManagedResource", r.tracker.latencies(keys, managedResourceTime))
	if err != nil {
		return nil, err
	}
	last, err := r.awaitNoWrites(ctx)

	return append(append(durations, latencies...), now.until("last write of the operator", last)), err
}

// idle waits.
func (r *runner) idle(ctx context.Context, _ clock) ([]report.Duration, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
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

// change changes the label of the pods of an Etcd.
func (r *runner) change(ctx context.Context, key client.ObjectKey, value string) error {
	r.tracker.begin(key, time.Now())
	patch := fmt.Appendf(nil, `{"spec":{"labels":{%q:%q}}}`, changedLabel, value)
	etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := r.client.Patch(ctx, etcd, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("changing Etcd %s: %w", key, err)
	}

	return nil
}

// changeSome changes some Etcds, one at a time.
func (r *runner) changeSome(ctx context.Context, now clock) ([]report.Duration, error) {
	keys := r.keys()
	keys = keys[:min(r.Samples, len(keys))]
	for _, key := range keys {
		if err := r.change(ctx, key, "single"); err != nil {
			return nil, err
		}
		if _, err := r.tracker.await(ctx, "the ManagedResource of "+key.String(), []client.ObjectKey{key}, managedResourceTime); err != nil {
			return nil, err
		}
	}
	durations, err := percentiles("from a change to the ManagedResource", r.tracker.latencies(keys, managedResourceTime))
	if err != nil {
		return nil, err
	}
	if _, err := r.tracker.await(ctx, "all changes", keys, completeTime); err != nil {
		return nil, err
	}
	last, err := r.awaitNoWrites(ctx)

	return append(durations, now.until("last write of the operator", last)), err
}

// changeAll changes all Etcds at once, and waits until all pods were replaced.
func (r *runner) changeAll(ctx context.Context, now clock) ([]report.Duration, error) {
	keys := r.keys()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, key := range keys {
		group.Go(func() error { return r.change(groupCtx, key, "all") })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	durations := []report.Duration{now.until("all Etcds are changed", time.Now())}
	rendered, err := r.tracker.await(ctx, "all ManagedResources", keys, managedResourceTime)
	if err != nil {
		return nil, err
	}
	complete, err := r.tracker.await(ctx, "all changes", keys, completeTime)
	if err != nil {
		return nil, err
	}
	latencies, err := percentiles("from a change to the ManagedResource", r.tracker.latencies(keys, managedResourceTime))
	if err != nil {
		return nil, err
	}
	last, err := r.awaitNoWrites(ctx)

	return append(append(durations, now.until("all ManagedResources are changed", rendered), now.until("all changes are complete", complete)),
		append(latencies, now.until("last write of the operator", last))...), err
}

// restart restarts the operator, and waits until it has reconciled all Etcds.
func (r *runner) restart(ctx context.Context, now clock) ([]report.Duration, error) {
	if err := r.operator.stop(); err != nil {
		return nil, err
	}
	stopped := time.Now()
	now.start = stopped
	if err := r.operator.start(ctx); err != nil {
		return nil, err
	}
	durations := []report.Duration{now.until("caches are in sync", time.Now())}
	finished := r.startProfile(ctx, phaseRestart, restartProfile)
	defer func() { <-finished }()
	var idleSince time.Time
	ticker := time.NewTicker(time.Second) // the metrics of thousands of Etcds cost CPU time
	defer ticker.Stop()
	for { // the queues are empty for a moment before the first objects are added
		busy, err := r.operator.isBusy(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case busy:
			idleSince = time.Time{}
		case idleSince.IsZero():
			idleSince = time.Now()
		}
		if !idleSince.IsZero() && time.Since(idleSince) > r.Quiet/4 {
			return append(durations, now.until("all queues are empty", idleSince)), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// loseNode makes a node with its members stop to respond. When the operator has reported all of them, the node is deleted, and the members
// start on other nodes.
func (r *runner) loseNode(ctx context.Context, now clock) ([]report.Duration, error) {
	lost := nodeName(1)
	first := (r.Etcds+r.MembersOfNode-1)/r.MembersOfNode + 1
	for number := range 2 {
		if err := r.createNode(ctx, first+number); err != nil {
			return nil, err
		}
	}
	keys, err := r.keysOn(ctx, lost)
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: lost}}
	if err := r.client.Patch(ctx, node, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, kwokAnnotation))); err != nil {
		return nil, fmt.Errorf("stopping node %s: %w", lost, err)
	}
	r.stub.Lose(lost)
	start := time.Now()
	unready, err := r.tracker.await(ctx, "all lost members", keys, func(p progress) time.Time {
		if p.unready.Before(start) {
			return time.Time{}
		}

		return p.unready
	})
	if err != nil {
		return nil, err
	}
	deleted := time.Now()
	if err := r.client.Delete(ctx, node); err != nil {
		return nil, fmt.Errorf("deleting node %s: %w", lost, err)
	}
	ready, err := r.tracker.await(ctx, "all members", keys, func(p progress) time.Time {
		if p.ready.Before(deleted) {
			return time.Time{}
		}

		return p.ready
	})
	if err != nil {
		return nil, err
	}
	r.Log.Info("A node was lost", "members", len(keys))
	last, err := r.awaitNoWrites(ctx)

	return []report.Duration{
		now.until("all lost members are reported", unready),
		clock{start: deleted}.until("from the deletion of the node until all members are ready", ready),
		now.until("last write of the operator", last),
	}, err
}

// keysOn are the Etcds with a member on the node.
func (r *runner) keysOn(ctx context.Context, node string) ([]client.ObjectKey, error) {
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods, client.MatchingLabels{druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameStatefulSet}); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	var keys []client.ObjectKey
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == node {
			keys = append(keys, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[druidv1alpha1.LabelPartOfKey]})
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("node %s has no members", node)
	}

	return keys, nil
}
