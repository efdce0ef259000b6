// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"maps"
	"slices"
	"sync"

	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// issuedClient is the client of the secrets manager for one reconciliation. The secrets manager lists the Secrets of the Etcd when it
// starts. It then reads each of them again, and lists them once more for each CA. issuedClient answers these reads from the first list.
// It sends all writes. Other objects, and Secrets that the list does not contain, are read from the API server.
//
// The secrets manager generates what a Secret contains as soon as it has read that the Secret does not exist.
type issuedClient struct {
	client.Client

	// beforeGeneration is called before Get returns that a Secret does not exist. If it returns an error, Get returns that error. Nil: nothing is
	// called.
	beforeGeneration func() error

	lock sync.Mutex
	// namespace and selector are those of the list. A nil selector means that there is no list.
	namespace string
	selector  labels.Set
	// listed are the Secrets by their names, with the changes of this client.
	listed map[string]*corev1.Secret
}

// Get implements client.Client.
func (c *issuedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if secret, is := obj.(*corev1.Secret); is {
		c.lock.Lock()
		defer c.lock.Unlock()
		if listed := c.listed[key.Name]; listed != nil && key.Namespace == c.namespace {
			listed.DeepCopyInto(secret)

			return nil
		}
	}
	err := c.Client.Get(ctx, key, obj, opts...)
	if _, is := obj.(*corev1.Secret); is && apierrors.IsNotFound(err) && c.beforeGeneration != nil {
		if rejected := c.beforeGeneration(); rejected != nil {
			return rejected
		}
	}

	return err
}

// List implements client.Client.
func (c *issuedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	secrets, is := list.(*corev1.SecretList)
	options := (&client.ListOptions{}).ApplyOptions(opts)
	wanted, selects := identityOf(options)
	if !is || !selects {
		return c.Client.List(ctx, list, opts...)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.selector == nil || c.namespace != options.Namespace || !maps.Equal(c.selector, wanted) {
		all := &corev1.SecretList{}
		if err := c.Client.List(ctx, all, client.InNamespace(options.Namespace), client.MatchingLabels(wanted)); err != nil {
			return err
		}
		c.namespace, c.selector, c.listed = options.Namespace, wanted, map[string]*corev1.Secret{}
		for i := range all.Items {
			c.listed[all.Items[i].Name] = &all.Items[i]
		}
	}
	secrets.Items = nil
	for _, name := range slices.Sorted(maps.Keys(c.listed)) {
		if secret := c.listed[name]; options.LabelSelector.Matches(labels.Set(secret.Labels)) {
			secrets.Items = append(secrets.Items, *secret.DeepCopy())
		}
	}

	return nil
}

// Create implements client.Client.
func (c *issuedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.written(obj, c.Client.Create(ctx, obj, opts...))
}

// Update implements client.Client.
func (c *issuedClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.written(obj, c.Client.Update(ctx, obj, opts...))
}

// Patch implements client.Client.
func (c *issuedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.written(obj, c.Client.Patch(ctx, obj, patch, opts...))
}

// Delete implements client.Client.
func (c *issuedClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	err := c.Client.Delete(ctx, obj, opts...)
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.listed, obj.GetName())

	return err
}

// written adds a Secret that was written to the list. After an error, it is not known what the API server has: the next read is sent.
func (c *issuedClient) written(obj client.Object, err error) error {
	secret, is := obj.(*corev1.Secret)
	if !is {
		return err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if err != nil {
		c.selector, c.listed = nil, nil

		return err
	}
	if c.selector != nil && secret.Namespace == c.namespace && c.selector.AsSelector().Matches(labels.Set(secret.Labels)) {
		c.listed[secret.Name] = secret.DeepCopy()
	} else if secret.Namespace == c.namespace {
		delete(c.listed, secret.Name)
	}

	return nil
}

// identityOf returns the labels by which an instance of the secrets manager selects all of its Secrets. It returns false for a list of
// other objects.
func identityOf(options *client.ListOptions) (labels.Set, bool) {
	if options.LabelSelector == nil || options.FieldSelector != nil || options.Continue != "" {
		return nil, false
	}
	identity := labels.Set{}
	for _, key := range []string{secretsmanager.LabelKeyManagedBy, secretsmanager.LabelKeyManagerIdentity} {
		value, is := options.LabelSelector.RequiresExactMatch(key)
		if !is {
			return nil, false
		}
		identity[key] = value
	}

	return identity, true
}
