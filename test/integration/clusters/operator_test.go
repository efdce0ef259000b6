// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/secret"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// process simulates one process of the operator with its own caches and watches.
type process struct {
	// killAt is the number of the write at which the process is killed, starting with 1. 0: the process is not killed.
	killAt int
	// after is true if the process is killed after the write instead of before it.
	after bool
	// withCare is true if the process also runs the care controller.
	withCare bool

	lock   sync.Mutex
	writes int
	killed chan struct{}
	// statusPatches are the patches of the status of Etcds, and conflicts are those that the API server has rejected with a conflict.
	statusPatches, conflicts int
}

var errKilled = errors.New("the process was killed")

// write counts a write and performs it. At the write killAt it kills the process.
func (p *process) write(do func() error) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.isKilled() {
		return errKilled
	}
	p.writes++
	if p.writes != p.killAt {
		return do()
	}
	defer close(p.killed) // after the write, because the test then stops the process and cancels pending requests
	if p.after {
		_ = do() // the killed process cannot handle the error
	}
	return errKilled
}

func (p *process) isKilled() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

// newClient returns a client for the manager that passes each write through p.write.
func (p *process) newClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
				return c.Create(ctx, obj, opts...)
			}
			return p.write(func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return p.write(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return p.write(func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return p.write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, name string, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
			return p.write(func() error { return c.SubResource(name).Create(ctx, obj, sub, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return p.write(func() error { return c.SubResource(name).Update(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return p.write(func() error {
				err := c.SubResource(name).Patch(ctx, obj, patch, opts...)
				if _, is := obj.(*druidv1alpha1.Etcd); is && name == "status" {
					p.statusPatches++
					if apierrors.IsConflict(err) {
						p.conflicts++
					}
				}

				return err
			})
		},
	}), nil
}

// start starts the operator for one namespace. The returned function stops it.
func (p *process) start(namespace string, etcds *members) func() {
	GinkgoHelper()
	p.killed = make(chan struct{})
	caches := app.CacheOptions()
	caches.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	mgr := newManager(manager.Options{Scheme: app.NewScheme(), Cache: caches, Client: app.ClientOptions(), NewClient: p.newClient})
	watching, versions := &observer.Observer{Reader: mgr.GetCache(), APIReader: mgr.GetAPIReader(), Etcd: etcds}, calls.NewEtcdVersions()
	Expect(etcd.AddToManager(context.Background(), mgr, etcd.AddOptions{
		Renderings: &renderings,
		Config: target.Config{EtcdHelper: target.EtcdHelper{Image: "registry.example.com/operator:v1"}, LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath}, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {
			EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1",
		}}}},
		Observer: watching,
		Versions: versions,
	})).To(Succeed())
	if p.withCare {
		Expect(care.AddToManager(context.Background(), mgr, care.AddOptions{
			Config:   care.Config{SyncPeriod: time.Second, UnknownThreshold: time.Minute, NotReadyThreshold: 5 * time.Minute},
			Observer: watching,
			Versions: versions,
		})).To(Succeed())
	}
	Expect(secret.AddToManager(context.Background(), mgr, secret.AddOptions{})).To(Succeed())
	return start(mgr)
}
