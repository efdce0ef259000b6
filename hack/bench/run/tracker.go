// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// progress is what happened to an Etcd. A zero time means that it has not happened yet.
type progress struct {
	// begun is when the Etcd was created or changed last, and generation is its generation since then.
	begun      time.Time
	generation int64
	// managedResource is when the ManagedResource was created, or changed since begun. statefulSet is when the StatefulSet was created.
	managedResource, statefulSet time.Time
	managedResourceGeneration    int64
	// complete is when the generation was rolled out. unready is when a quorum was no longer healthy, and ready is when it was again.
	complete, unready, ready time.Time
}

// tracker records the progress of all Etcds from watch events.
type tracker struct {
	lock  sync.Mutex
	etcds map[client.ObjectKey]*progress
}

// watch starts to record the progress.
func (t *tracker) watch(ctx context.Context, objects cache.Cache) error {
	metadata := func(gvk schema.GroupVersionKind) client.Object {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(gvk)

		return object
	}
	for _, watched := range []struct {
		object client.Object
		record func(client.Object, time.Time)
	}{
		{&druidv1alpha1.Etcd{}, func(o client.Object, now time.Time) { t.recordEtcd(o.(*druidv1alpha1.Etcd), now) }},
		{metadata(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource")), t.recordManagedResource},
		{metadata(appsv1.SchemeGroupVersion.WithKind("StatefulSet")), t.recordStatefulSet},
	} {
		informer, err := objects.GetInformer(ctx, watched.object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", watched.object, err)
		}
		record := func(object any) {
			if o, is := object.(client.Object); is {
				watched.record(o, time.Now())
			}
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: record, UpdateFunc: func(_, object any) { record(object) }}); err != nil {
			return fmt.Errorf("watching %T: %w", watched.object, err)
		}
	}

	return nil
}

func (t *tracker) recordEtcd(etcd *druidv1alpha1.Etcd, now time.Time) {
	t.update(client.ObjectKeyFromObject(etcd), func(p *progress) {
		if isComplete(etcd) && etcd.Generation >= p.generation && p.complete.IsZero() {
			p.complete = now
		}
		switch isHealthy := isReady(etcd); {
		case isHealthy && p.ready.IsZero():
			p.ready = now
		case !isHealthy && !p.ready.IsZero():
			p.ready, p.unready = time.Time{}, now
		}
	})
}

func (t *tracker) recordManagedResource(object client.Object, now time.Time) {
	name, ok := helper.EtcdNameOfManagedResource(object.GetName())
	if !ok {
		return
	}
	t.update(client.ObjectKey{Namespace: object.GetNamespace(), Name: name}, func(p *progress) {
		if object.GetGeneration() != p.managedResourceGeneration && p.managedResource.IsZero() {
			p.managedResource = now
		}
		p.managedResourceGeneration = object.GetGeneration()
	})
}

func (t *tracker) recordStatefulSet(object client.Object, now time.Time) {
	t.update(client.ObjectKeyFromObject(object), func(p *progress) {
		if p.statefulSet.IsZero() {
			p.statefulSet = now
		}
	})
}

func (t *tracker) update(key client.ObjectKey, change func(*progress)) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.etcds == nil {
		t.etcds = map[client.ObjectKey]*progress{}
	}
	if t.etcds[key] == nil {
		t.etcds[key] = &progress{}
	}
	change(t.etcds[key])
}

// begin records that an Etcd is created or changed now.
func (t *tracker) begin(key client.ObjectKey, now time.Time) {
	t.update(key, func(p *progress) {
		p.begun, p.managedResource, p.complete = now, time.Time{}, time.Time{}
		p.generation++
	})
}

// times returns the time that get returns for each Etcd.
func (t *tracker) times(keys []client.ObjectKey, get func(progress) time.Time) (happened []time.Time, missing int) {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, key := range keys {
		at := time.Time{}
		if p := t.etcds[key]; p != nil {
			at = get(*p)
		}
		if at.IsZero() {
			missing++
		} else {
			happened = append(happened, at)
		}
	}

	return happened, missing
}

// await waits until get returns a time for all Etcds, and returns the last of them.
func (t *tracker) await(ctx context.Context, what string, keys []client.ObjectKey, get func(progress) time.Time) (time.Time, error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		happened, missing := t.times(keys, get)
		if missing == 0 {
			return slices.MaxFunc(happened, time.Time.Compare), nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for %s: %d of %d Etcds are missing: %w", what, missing, len(keys), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// latencies returns the times from begun until get, sorted.
func (t *tracker) latencies(keys []client.ObjectKey, get func(progress) time.Time) []time.Duration {
	t.lock.Lock()
	defer t.lock.Unlock()
	var list []time.Duration
	for _, key := range keys {
		if p := t.etcds[key]; p != nil && !get(*p).IsZero() {
			list = append(list, get(*p).Sub(p.begun))
		}
	}
	slices.Sort(list)

	return list
}

var errNoLatencies = errors.New("no latency was measured")

// percentiles returns the median and the 99th percentile of sorted times.
func percentiles(name string, sorted []time.Duration) ([]report.Duration, error) {
	if len(sorted) == 0 {
		return nil, errNoLatencies
	}
	at := func(percent int) float64 { return sorted[(len(sorted)-1)*percent/100].Seconds() }

	return []report.Duration{{Name: name + ", median", Seconds: at(50)}, {Name: name + ", 99th percentile", Seconds: at(99)}}, nil
}
