// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// growthPause is when a larger volume that was refused is asked for again: a quota may have room later.
const growthPause = time.Minute

// growths remembers which larger volumes the API server has refused lately, by the UIDs of their claims. The zero value is ready.
// An operator that starts anew asks once more.
type growths struct {
	lock    sync.Mutex
	refused map[types.UID]refusedGrowth
}

type refusedGrowth struct {
	size int64
	why  string
	at   time.Time
}

// tell writes into claims what was refused lately.
func (g *growths) tell(claims []etcdcluster.Claim, now time.Time) {
	g.lock.Lock()
	defer g.lock.Unlock()
	for i := range claims {
		if known, found := g.refused[claims[i].UID]; found && now.Sub(known.at) < growthPause {
			claims[i].RefusedSize, claims[i].RefusedWhy = known.size, known.why
		}
	}
}

// remember remembers a refusal, and forgets what was refused long ago.
func (g *growths) remember(claim types.UID, refused refusedGrowth) {
	g.lock.Lock()
	defer g.lock.Unlock()
	maps.DeleteFunc(g.refused, func(_ types.UID, known refusedGrowth) bool { return refused.at.Sub(known.at) >= growthPause })
	if g.refused == nil {
		g.refused = map[types.UID]refusedGrowth{}
	}
	g.refused[claim] = refused
}

// resizeClaim asks for a larger volume. What the API server refuses, which may know better than the StorageClass, is told to
// the planner.
func (r *execution) resizeClaim(ctx context.Context, run *engine.Run, step plan.ResizeClaim, reason string) error {
	etcd := run.Target.Etcd
	size := resource.NewQuantity(step.Size, resource.BinarySI).String()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": step.UID},
		"spec":     map[string]any{"resources": corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(step.Size, resource.BinarySI)}}},
	})
	if err != nil {
		return fmt.Errorf("writing the patch of claim %s: %w", step.Object, err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: step.Object}}
	err = r.Client.Patch(ctx, claim, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		r.growths.remember(step.UID, refusedGrowth{size: step.Size, why: err.Error(), at: r.Clock.Now()})
		r.growths.tell(run.Observation.Claims, r.Clock.Now())
		return engine.ErrObservationChanged
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // it is another claim by now
	case err != nil:
		return fmt.Errorf("letting the volume of claim %s grow: %w", step.Object, err)
	}
	r.event(etcd, corev1.EventTypeNormal, "GrowingVolume", "Asked for %s for PersistentVolumeClaim %s: %s", size, step.Object, reason)

	return nil
}

// announceSizeOne reports that the first member starts with size 1 again, since its sidecar may restore the store over its data then.
func (r *execution) announceSizeOne(run *engine.Run) {
	if !planner.ReturnsToOne(run.Rendered.Plan, run.Target.Stored, run.Observation) {
		return
	}
	restores := ""
	if helper.IsStoreConfigured(run.Target.Etcd) {
		restores = ", and restores the store if the member has lost its data"
	}
	r.event(run.Target.Stored, corev1.EventTypeWarning, "FirstMemberNotReady",
		"Member %s has not become ready: its sidecar starts with cluster size 1 again%s", helper.MemberName(run.Target.Stored, 0), restores)
}
