// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/keymutex"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// knownVersions is the number of Etcds whose versions are known, of some kilobytes each. The caches have the versions of others again.
const knownVersions = 1000

// writeLocks is the number of locks for concurrent writes. Two Etcds may share a lock.
const writeLocks = 1000

// EtcdVersions write Etcds for the controllers of one process. Each controller reads an Etcd from the cache, and patches it seconds later. Without
// EtcdVersions, its patch would conflict with each patch of another controller in between. They are safe for concurrent use. Nil: no version is known.
type EtcdVersions struct {
	latest *lru.Cache
	// writing locks an Etcd while it is written. Of two concurrent patches of the same version, one would conflict.
	writing keymutex.KeyMutex
}

// NewEtcdVersions returns EtcdVersions that know no version.
func NewEtcdVersions() *EtcdVersions {
	return &EtcdVersions{latest: lru.New(knownVersions), writing: keymutex.NewHashed(writeLocks)}
}

// Write replaces etcd by the latest known version, and calls write, which writes etcd and leaves there what the API server returned. After a conflict, it
// replaces etcd by the version of the API server, and calls write again. A version for which isOther is true replaces nothing, because the change does not
// apply to it. Write returns the conflict then, or after five attempts. They wait for at most 50 milliseconds in total, since a worker is in use. Write also
// waits for a write of the same Etcd by another controller.
func (v *EtcdVersions) Write(ctx context.Context, reader client.Reader, etcd *druidv1alpha1.Etcd, isOther func(*druidv1alpha1.Etcd) bool, write func() error) error {
	if v != nil {
		key := string(etcd.UID)
		v.writing.LockKey(key)
		defer func() { _ = v.writing.UnlockKey(key) }() // it returns no error
	}
	if known := v.laterThan(etcd); known != nil && !isOther(known) {
		known.DeepCopyInto(etcd)
	}
	isSuperseded, before := false, etcd.ResourceVersion
	isRepeated := func(err error) bool { return apierrors.IsConflict(err) && !isSuperseded }
	err := retry.OnError(retry.DefaultRetry, isRepeated, func() error {
		err := write()
		if !apierrors.IsConflict(err) {
			return err
		}
		latest := &druidv1alpha1.Etcd{}
		if gone := reader.Get(ctx, client.ObjectKeyFromObject(etcd), latest); gone != nil {
			return gone
		}
		if isSuperseded = isOther(latest); !isSuperseded {
			latest.DeepCopyInto(etcd)
		}

		return err
	})
	if err == nil && v != nil && etcd.ResourceVersion != before && v.laterThan(etcd) == nil {
		v.latest.Add(etcd.UID, etcd.DeepCopy())
	}

	return err
}

// laterThan returns the latest known version of an Etcd. Nil: the Etcd is not older.
func (v *EtcdVersions) laterThan(etcd *druidv1alpha1.Etcd) *druidv1alpha1.Etcd {
	if v == nil {
		return nil
	}
	known, found := v.latest.Get(etcd.UID)
	if !found {
		return nil
	}
	latest := known.(*druidv1alpha1.Etcd)
	if order, err := resourceversion.CompareResourceVersion(latest.ResourceVersion, etcd.ResourceVersion); err != nil || order <= 0 {
		return nil
	}

	return latest
}
