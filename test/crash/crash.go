// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package crash kills a controller before and after each of its writes. Every run must have the result of the undisturbed run.
//
// What may not live here: the simulated cluster of an Etcd (test/kube), and knowledge about one controller.
package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Case is a change that a controller rolls out.
type Case struct {
	// Scheme of all objects.
	Scheme *runtime.Scheme
	// Objects exist before the controller starts. The returned objects belong to the caller.
	Objects func() []client.Object
	// Status are the kinds whose status is a subresource.
	Status []client.Object
	// Start starts a process of the controller, and returns its reconciliation. Each process has a client of its own. The context ends with
	// the process.
	Start func(ctx context.Context, c client.Client) func(ctx context.Context) error
	// Others lets all other components act once. It writes with a client that is never killed. Nil: there are none.
	Others func(ctx context.Context, c client.Client) error
	// Kinds are the lists of the objects that are compared.
	Kinds []client.ObjectList
}

// Result is the result of all runs.
type Result struct {
	// Objects are the objects after the undisturbed run, as JSON without what the API server sets.
	Objects []string
	// Writes are the writes of the undisturbed run.
	Writes []string
	// Failures describe the runs with another result.
	Failures []string
}

// ErrKilled is the error of each write of a process that is killed.
var ErrKilled = errors.New("the process is killed")

// ErrEndless is the error of a controller that does not stop writing.
var ErrEndless = errors.New("the controller still writes after 200 reconciliations")

// Run runs the case undisturbed, and then again for each write with a controller that is killed before or after it.
func Run(ctx context.Context, c Case) (Result, error) {
	undisturbed := &run{Case: c}
	objects, err := undisturbed.do(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Objects: objects, Writes: undisturbed.writes}
	for i, write := range undisturbed.writes {
		for _, isDone := range []bool{false, true} {
			disturbed := &run{Case: c, killAt: i + 1, killAfter: isDone}
			objects, err := disturbed.do(ctx)
			when := map[bool]string{false: "before", true: "after"}[isDone]
			switch {
			case err != nil:
				result.Failures = append(result.Failures, fmt.Sprintf("killed %s %s: %s", when, write, err))
			case !slices.Equal(objects, result.Objects):
				result.Failures = append(result.Failures, fmt.Sprintf("killed %s %s: the result is\n%s\nand not\n%s", when, write, strings.Join(objects, "\n"), strings.Join(result.Objects, "\n")))
			}
		}
	}

	return result, nil
}

// run is one run of a case.
type run struct {
	Case

	// killAt is the number of the write at which the first process is killed. 0: it is not killed.
	killAt    int
	killAfter bool

	// lock is held during each write of the controller, which may call in parallel to its reconciliation.
	lock   sync.Mutex
	writes []string
	// changes counts the writes of all components that have succeeded.
	changes atomic.Int64
	uids    atomic.Int64
}

func (r *run) do(ctx context.Context) ([]string, error) {
	api := fake.NewClientBuilder().WithScheme(r.Scheme).WithObjects(r.Objects()...).WithStatusSubresource(r.Status...).Build()
	others := r.intercept(api, nil)
	start := func() (*process, func(context.Context) error) {
		p := &process{}
		p.ctx, p.kill = context.WithCancel(ctx)

		return p, r.Start(p.ctx, r.intercept(api, p))
	}
	current, reconcile := start()
	defer func() { current.kill() }()
	for idle, rounds := 0, 0; idle < 3; rounds++ {
		if rounds > 200 {
			return nil, ErrEndless
		}
		before := r.changes.Load()
		err := reconcile(current.ctx)
		if current.ctx.Err() != nil && ctx.Err() == nil {
			current, reconcile = start()
			idle = 0

			continue
		}
		if r.Others != nil {
			if err := r.Others(ctx, others); err != nil {
				return nil, err
			}
		}
		if idle++; r.changes.Load() != before {
			idle = 0
		} else if err != nil && idle == 3 {
			return nil, err
		}
	}

	return r.snapshot(ctx, api)
}

// process is one process of the controller.
type process struct {
	ctx  context.Context
	kill context.CancelFunc
}

// write does a write, unless the process is killed before. A process that is killed writes nothing any more. Nil: another component writes.
func (r *run) write(p *process, what string, do func() error) error {
	if p == nil {
		return r.count(do())
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if p.ctx.Err() != nil {
		return ErrKilled
	}
	r.writes = append(r.writes, what)
	isKilled := len(r.writes) == r.killAt
	if isKilled && !r.killAfter {
		p.kill()

		return ErrKilled
	}
	err := r.count(do())
	if isKilled {
		p.kill()

		return ErrKilled
	}

	return err
}

// count counts a write that has succeeded.
func (r *run) count(err error) error {
	if err == nil {
		r.changes.Add(1)
	}

	return err
}

// intercept returns the client of a process, or that of all other components, which are never killed. It gives each new object a UID.
func (r *run) intercept(api client.WithWatch, p *process) client.Client {
	named := func(verb string, obj client.Object) string { return fmt.Sprintf("%s %T %s", verb, obj, obj.GetName()) }

	return interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return r.write(p, named("create", obj), func() error {
				obj.SetUID(types.UID(fmt.Sprintf("uid-%d", r.uids.Add(1))))

				return c.Create(ctx, obj, opts...)
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return r.write(p, named("update", obj), func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return r.write(p, named("patch", obj), func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return r.write(p, named("delete", obj), func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return r.write(p, named("update "+name+" of", obj), func() error { return c.SubResource(name).Update(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return r.write(p, named("patch "+name+" of", obj), func() error { return c.SubResource(name).Patch(ctx, obj, patch, opts...) })
		},
	})
}

// ignored are the keys that the API server sets, or that contain times.
var ignored = []string{"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "lastTransitionTime", "lastUpdateTime", "selector", "batch.kubernetes.io/controller-uid", "controller-uid"}

// snapshot returns the objects of all kinds as JSON, sorted.
func (r *run) snapshot(ctx context.Context, api client.Client) ([]string, error) {
	var found []string
	for _, kind := range r.Kinds {
		list := kind.DeepCopyObject().(client.ObjectList)
		if err := api.List(ctx, list); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				return err
			}
			drop(content)
			data, err := json.Marshal(content)
			found = append(found, fmt.Sprintf("%T %s", obj, data))

			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(found)

	return found, nil
}

func drop(content any) {
	switch content := content.(type) {
	case map[string]any:
		for _, key := range ignored {
			delete(content, key)
		}
		for _, value := range content {
			drop(value)
		}
	case []any:
		for _, value := range content {
			drop(value)
		}
	}
}
