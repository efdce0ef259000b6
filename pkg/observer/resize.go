// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// ResizePause is how long the result of a dry run is cached, before the API server is asked again: a quota may have room later.
const ResizePause = time.Minute

// dryRuns caches the results of dry runs, by the UIDs of their objects. The zero value is ready.
type dryRuns struct {
	lock     sync.Mutex
	byObject map[types.UID]dryRun
}

type dryRun struct {
	// version is the size of a volume, or the generation of a StatefulSet.
	version int64
	result  etcdcluster.Preflight
	at      time.Time
}

// find returns the cached result for a version. False: there is none, or it is too old.
func (d *dryRuns) find(object types.UID, version int64, now time.Time) (etcdcluster.Preflight, bool) {
	d.lock.Lock()
	defer d.lock.Unlock()
	cached, found := d.byObject[object]

	return cached.result, found && cached.version == version && now.Sub(cached.at) < ResizePause
}

// add caches a result, and drops those that are too old.
func (d *dryRuns) add(object types.UID, latest dryRun) {
	d.lock.Lock()
	defer d.lock.Unlock()
	maps.DeleteFunc(d.byObject, func(_ types.UID, cached dryRun) bool { return latest.at.Sub(cached.at) >= ResizePause })
	if d.byObject == nil {
		d.byObject = map[types.UID]dryRun{}
	}
	d.byObject[object] = latest
}

// tryResize records whether the API server rejects a larger volume: quotas and admission webhooks may know better than the StorageClass. A dry
// run that ends in any other error says nothing, and the resize itself is tried.
func (r *reader) tryResize(ctx context.Context, claim *etcdcluster.Claim, size int64) {
	if r.DryRun == nil {
		return
	}
	if cached, found := r.dryRuns.find(claim.UID, size, r.now()); found {
		claim.RefusedSize, claim.RefusedWhy = size, cached.Refusal

		return
	}
	object := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: r.etcd.Namespace, Name: claim.Name}}
	patch, err := ResizePatch(claim.UID, size)
	if err != nil {
		return
	}
	if err := r.DryRun.Patch(ctx, object, patch, client.DryRunAll); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		r.dryRuns.add(claim.UID, dryRun{version: size, result: etcdcluster.Preflight{Refusal: err.Error()}, at: r.now()})
		claim.RefusedSize, claim.RefusedWhy = size, err.Error()
	}
}

// ResizePatch returns the patch that requests a volume of a size in bytes for the claim with this UID.
func ResizePatch(claim types.UID, size int64) (client.Patch, error) {
	requests := corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	before := &corev1.PersistentVolumeClaim{}
	after := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: claim}, Spec: corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{Requests: requests},
	}}
	data, err := client.MergeFrom(before).Data(after)

	return client.RawPatch(types.MergePatchType, data), err
}
