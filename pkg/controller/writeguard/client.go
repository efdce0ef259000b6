// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package writeguard

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Acts are the writes and conflicts of one reconciliation.
type Acts struct {
	lock sync.Mutex
	all  []string
	// others is true if there is an act other than a successful write of a status.
	others bool
}

type actsKey struct{}

// Record returns a context that records the writes and conflicts of a client of CountWrites.
func Record(ctx context.Context) (context.Context, *Acts) {
	acts := &Acts{}

	return context.WithValue(ctx, actsKey{}, acts), acts
}

// All returns descriptions of the distinct acts, in the order of their first occurrence.
func (a *Acts) All() []string {
	a.lock.Lock()
	defer a.lock.Unlock()

	return slices.Clone(a.all)
}

// AreReports is true if the reconciliation wrote only statuses. A write of its own status does not trigger a controller.
func (a *Acts) AreReports() bool {
	a.lock.Lock()
	defer a.lock.Unlock()

	return !a.others
}

// Add records an act other than a write to the API server. It does nothing in a context without Record.
func Add(ctx context.Context, act string) { add(ctx, act, false) }

func add(ctx context.Context, act string, isReport bool) {
	acts, ok := ctx.Value(actsKey{}).(*Acts)
	if !ok {
		return
	}
	acts.lock.Lock()
	defer acts.lock.Unlock()
	acts.others = acts.others || !isReport
	if !slices.Contains(acts.all, act) {
		acts.all = append(acts.all, act)
	}
}

// CountWrites returns a client that records its writes in the context of Record. It records a failed request only for a
// conflict, because the queue retries other errors with exponential backoff. It does not record dry runs.
func CountWrites(c client.Client) client.Client {
	return &countingClient{Client: c}
}

const (
	subResourceOf = " of"
	patchStatus   = "patch status" + subResourceOf
)

type countingClient struct {
	client.Client
}

func (c *countingClient) count(ctx context.Context, verb string, obj client.Object, dryRun []string, err error) error {
	if err != nil && !apierrors.IsConflict(err) || slices.Contains(dryRun, metav1.DryRunAll) {
		return err
	}
	kind := "object"
	if gvk, unknown := c.GroupVersionKindFor(obj); unknown == nil {
		kind = gvk.Kind
	}
	outcome := ""
	if err != nil {
		outcome = " (conflict)"
	}
	add(ctx, fmt.Sprintf("%s %s %s%s", verb, kind, obj.GetName(), outcome), verb == patchStatus && err == nil)

	return err
}

// Create implements client.Client.
func (c *countingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	options := (&client.CreateOptions{}).ApplyOptions(opts)

	return c.count(ctx, "create", obj, options.DryRun, c.Client.Create(ctx, obj, opts...))
}

// Update implements client.Client.
func (c *countingClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	options := (&client.UpdateOptions{}).ApplyOptions(opts)

	return c.count(ctx, "update", obj, options.DryRun, c.Client.Update(ctx, obj, opts...))
}

// Patch implements client.Client.
func (c *countingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	options := (&client.PatchOptions{}).ApplyOptions(opts)

	return c.count(ctx, "patch", obj, options.DryRun, c.Client.Patch(ctx, obj, patch, opts...))
}

// Delete implements client.Client.
func (c *countingClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)

	return c.count(ctx, "delete", obj, options.DryRun, c.Client.Delete(ctx, obj, opts...))
}

// DeleteAllOf implements client.Client.
func (c *countingClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	options := (&client.DeleteAllOfOptions{}).ApplyOptions(opts)

	return c.count(ctx, "delete all of", obj, options.DryRun, c.Client.DeleteAllOf(ctx, obj, opts...))
}

// Apply implements client.Client.
func (c *countingClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	err := c.Client.Apply(ctx, obj, opts...)
	if err == nil || apierrors.IsConflict(err) {
		Add(ctx, fmt.Sprintf("apply %T", obj))
	}

	return err
}

// Status implements client.Client.
func (c *countingClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *countingClient) SubResource(name string) client.SubResourceClient {
	return &countingSubResource{SubResourceClient: c.Client.SubResource(name), client: c, name: name}
}

type countingSubResource struct {
	client.SubResourceClient
	client *countingClient
	name   string
}

// Create implements client.SubResourceClient.
func (s *countingSubResource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	return s.client.count(ctx, "create "+s.name+subResourceOf, obj, nil, s.SubResourceClient.Create(ctx, obj, sub, opts...))
}

// Update implements client.SubResourceClient.
func (s *countingSubResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.client.count(ctx, "update "+s.name+subResourceOf, obj, nil, s.SubResourceClient.Update(ctx, obj, opts...))
}

// Patch implements client.SubResourceClient.
func (s *countingSubResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.client.count(ctx, "patch "+s.name+subResourceOf, obj, nil, s.SubResourceClient.Patch(ctx, obj, patch, opts...))
}

// Apply implements client.SubResourceClient.
func (s *countingSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	err := s.SubResourceClient.Apply(ctx, obj, opts...)
	if err == nil || apierrors.IsConflict(err) {
		Add(ctx, fmt.Sprintf("apply %s of %T", s.name, obj))
	}

	return err
}
