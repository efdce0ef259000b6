// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// progress is what happened to an Etcd. A zero time means that it has not happened yet.
type progress struct {
	// generation is that of the Etcd since it was created or changed last.
	generation int64
	// managedResource is when the ManagedResource was created, or changed since then. statefulSet is when the StatefulSet was created.
	managedResource, statefulSet time.Time
	managedResourceGeneration    int64
	// complete is when the generation was rolled out.
	complete time.Time
	// isReady is true if a quorum is healthy, and unready is when it was no longer healthy.
	isReady bool
	unready time.Time
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
		wasReady := p.isReady
		if p.isReady = isReady(etcd); wasReady && !p.isReady {
			p.unready = now
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
func (t *tracker) begin(key client.ObjectKey) {
	t.update(key, func(p *progress) {
		p.managedResource, p.complete = time.Time{}, time.Time{}
		p.generation++
	})
}

// last returns the last time that get returns for the Etcds, and the number of Etcds for which it returns none.
func (t *tracker) last(keys []client.ObjectKey, get func(progress) time.Time) (last time.Time, missing int) {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, key := range keys {
		at := time.Time{}
		if p := t.etcds[key]; p != nil {
			at = get(*p)
		}
		if at.IsZero() {
			missing++
		} else if at.After(last) {
			last = at
		}
	}

	return last, missing
}

// await waits until get returns a time for all Etcds, and returns the last of them.
func (t *tracker) await(ctx context.Context, what string, keys []client.ObjectKey, get func(progress) time.Time) (last time.Time, err error) {
	missing := 0
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		last, missing = t.last(keys, get)

		return missing == 0, nil
	})
	if err != nil {
		err = fmt.Errorf("waiting for %s: %d of %d Etcds are missing: %w", what, missing, len(keys), err)
	}

	return last, err
}
