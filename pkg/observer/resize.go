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

// ResizePause is how long the rejection of a dry run is cached, before the API server is asked again: a quota may have room later.
const ResizePause = time.Minute

// rejections caches which larger volumes the API server has rejected in a dry run, by the UIDs of their claims. The zero value is ready.
type rejections struct {
	lock    sync.Mutex
	byClaim map[types.UID]rejection
}

type rejection struct {
	size    int64
	message string
	at      time.Time
}

// find returns the cached rejection of a size. False: there is none, or it is too old.
func (r *rejections) find(claim types.UID, size int64, now time.Time) (rejection, bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	cached, found := r.byClaim[claim]

	return cached, found && cached.size == size && now.Sub(cached.at) < ResizePause
}

// add caches a rejection, and drops those that are too old.
func (r *rejections) add(claim types.UID, latest rejection) {
	r.lock.Lock()
	defer r.lock.Unlock()
	maps.DeleteFunc(r.byClaim, func(_ types.UID, cached rejection) bool { return latest.at.Sub(cached.at) >= ResizePause })
	if r.byClaim == nil {
		r.byClaim = map[types.UID]rejection{}
	}
	r.byClaim[claim] = latest
}

// tryResize records whether the API server rejects a larger volume: quotas and admission webhooks may know better than the StorageClass. A dry
// run that ends in any other error says nothing, and the resize itself is tried.
func (r *reader) tryResize(ctx context.Context, claim *etcdcluster.Claim, size int64) {
	if r.DryRun == nil {
		return
	}
	if cached, found := r.rejected.find(claim.UID, size, r.now()); found {
		claim.RefusedSize, claim.RefusedWhy = cached.size, cached.message

		return
	}
	object := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: r.etcd.Namespace, Name: claim.Name}}
	patch, err := ResizePatch(claim.UID, size)
	if err != nil {
		return
	}
	if err := r.DryRun.Patch(ctx, object, patch, client.DryRunAll); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		r.rejected.add(claim.UID, rejection{size: size, message: err.Error(), at: r.now()})
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
