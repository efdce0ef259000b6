// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"sync"

	"github.com/gardener/gardener/pkg/utils"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Renderings are the latest renderings of all Etcds in this process. The controller etcd writes them, and the embedded resource
// manager applies no other payload. The zero value is empty. All methods can be called concurrently.
type Renderings struct {
	lock   sync.Mutex
	latest map[client.ObjectKey]rendering
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// rendering identifies a payload. The zero value matches none.
type rendering struct {
	// etcd is the UID of the Etcd that was rendered.
	etcd types.UID
	// secret is the name of the Secret with the payload.
	secret string
	// checksum is that of the data of the Secret.
	checksum string
}

// Record records the latest rendering of an Etcd: the name and the data of the Secret with the payload. If it differs from the
// last one, the embedded resource manager reconciles the ManagedResource again.
func (r *Renderings) Record(etcd *druidv1alpha1.Etcd, secret string, data map[string][]byte) {
	key := managedResourceKey(etcd)
	next := rendering{etcd: etcd.UID, secret: secret, checksum: utils.ComputeSecretChecksum(data)}

	r.lock.Lock()
	defer r.lock.Unlock()
	if r.latest[key] == next {
		return
	}
	if r.latest == nil {
		r.latest = map[client.ObjectKey]rendering{}
	}
	r.latest[key] = next
	if r.queue != nil {
		r.queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// Discard removes the rendering of an Etcd that is deleted.
func (r *Renderings) Discard(etcd *druidv1alpha1.Etcd) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if key := managedResourceKey(etcd); r.latest[key].etcd == etcd.UID {
		delete(r.latest, key)
	}
}

// of returns the latest rendering for a ManagedResource. The zero value: none is known.
func (r *Renderings) of(key client.ObjectKey) rendering {
	r.lock.Lock()
	defer r.lock.Unlock()

	return r.latest[key]
}

// source enqueues each ManagedResource whose latest rendering has changed.
func (r *Renderings) source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.lock.Lock()
		defer r.lock.Unlock()
		r.queue = queue
		for key := range r.latest {
			queue.Add(reconcile.Request{NamespacedName: key})
		}

		return nil
	})
}

func managedResourceKey(etcd *druidv1alpha1.Etcd) client.ObjectKey {
	return client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}
}
