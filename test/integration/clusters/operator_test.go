// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// life is one life of the operator's process, with caches and watches of its own.
type life struct {
	// killAt is the number of the write, from 1, at which it ends: before it or, with after, just after it. 0: never.
	killAt int
	after  bool

	lock   sync.Mutex
	writes int
	dead   chan struct{}
}

var errDead = errors.New("the process is dead")

// write counts a write, and ends the life around it.
func (l *life) write(do func() error) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.isDead() {
		return errDead
	}
	l.writes++
	if l.writes != l.killAt {
		return do()
	}
	defer close(l.dead) // only after the write: the test then stops the process, which would cancel the write
	if l.after {
		_ = do() // the process has no use for the error
	}
	return errDead
}

func (l *life) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// newClient makes the manager's client write through the life.
func (l *life) newClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
				return c.Create(ctx, obj, opts...)
			}
			return l.write(func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return l.write(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return l.write(func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return l.write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, name string, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
			return l.write(func() error { return c.SubResource(name).Create(ctx, obj, sub, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return l.write(func() error { return c.SubResource(name).Update(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return l.write(func() error { return c.SubResource(name).Patch(ctx, obj, patch, opts...) })
		},
	}), nil
}

// begin starts the operator for one namespace, and returns what ends it.
func (l *life) begin(namespace string, etcds *members) func() {
	GinkgoHelper()
	l.dead = make(chan struct{})
	caches := app.CacheOptions()
	caches.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	mgr := newManager(manager.Options{Scheme: app.NewScheme(), Cache: caches, Client: app.ClientOptions(), NewClient: l.newClient})
	Expect(etcd.AddToManager(context.Background(), mgr, etcd.AddOptions{
		Config: target.Config{LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath}, Defaults: state.Defaults{Images: state.Images{
			EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1",
		}}},
		Observer: &observer.Observer{Reader: mgr.GetCache(), APIReader: mgr.GetAPIReader(), Etcd: etcds},
	})).To(Succeed())
	return start(mgr)
}
