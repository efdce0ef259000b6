// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// largestSize is the largest supported cluster size.
const largestSize = 7

// readClaims reads the claims of the members by exact name: main-etcd-main-x-0 is another Etcd's, whatever its beginning.
func (p *pass) readClaims(ctx context.Context, events bool) {
	list := &corev1.PersistentVolumeClaimList{}
	if err := p.Reader.List(ctx, list, p.ours()...); err != nil {
		p.failed(etcdcluster.SectionClaims, err)

		return
	}
	byName := map[string]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	// A hibernated or shrunken cluster keeps its claims: as many as it ever had are looked for.
	for ordinal := range max(int(p.etcd.Spec.Replicas), int(p.seen.State.Size), 1) {
		claim, isForeign := p.claim(ctx, byName[helper.ClaimName(p.etcd, ordinal)], ordinal)
		if events && claim.Exists && (!claim.Bound || claim.Capacity < claim.Requested) {
			claim.Warnings = p.warningsOf(ctx, claim)
		}
		p.addClaim(claim, isForeign)
	}
	isNew, isDiscarded := p.seen.State.Size == 0 && !p.seen.StatefulSet.Exists, p.seen.State.Restore == state.RestoreDiscard
	if isNew || isDiscarded {
		p.readClaimsLeft(ctx, byName)
	}
}

// addClaim adds a claim to those of the members, or to the foreign ones.
func (p *pass) addClaim(claim etcdcluster.Claim, isForeign bool) {
	if isForeign {
		p.seen.ForeignClaims = append(p.seen.ForeignClaims, claim)

		return
	}
	p.seen.Claims = append(p.seen.Claims, claim)
}

// readClaimsLeft reads the claims above those of the spec that an earlier Etcd of the name may have left: nothing remembers how many
// members it had. What a restore leaves of them would be mounted by the members that are added later.
func (p *pass) readClaimsLeft(ctx context.Context, byName map[string]*corev1.PersistentVolumeClaim) {
	for ordinal := len(p.seen.Claims) + len(p.seen.ForeignClaims); ordinal < largestSize && p.seen.Failure(etcdcluster.SectionClaims) == ""; ordinal++ {
		if claim, isForeign := p.claim(ctx, byName[helper.ClaimName(p.etcd, ordinal)], ordinal); claim.Exists {
			p.addClaim(claim, isForeign)
		}
	}
}

// claim is the claim of one member. One that is not listed is looked up past the caches, which hold what carries our labels: a
// claim keeps those of the day on which it was made, and early versions of etcd-druid gave others. Nobody shall take for gone,
// or for never made, what holds data.
func (p *pass) claim(ctx context.Context, listed *corev1.PersistentVolumeClaim, ordinal int) (claim etcdcluster.Claim, isForeign bool) {
	if listed != nil {
		return claimFor(listed, ordinal), false // it has the labels of the Etcd
	}
	name, object := helper.ClaimName(p.etcd, ordinal), &corev1.PersistentVolumeClaim{}
	switch err := p.APIReader.Get(ctx, p.key(name), object); {
	case err == nil:
		return claimFor(object, ordinal), !helper.IsClaimOf(object, p.etcd) && !p.usesClaim(ordinal)
	case !apierrors.IsNotFound(err):
		p.failed(etcdcluster.SectionClaims, fmt.Errorf("reading claim %s: %w", name, err))
	}

	return etcdcluster.Claim{Name: name, Ordinal: ordinal}, false
}

// usesClaim is true where a member with the ordinal runs or ran: Kubernetes has let it mount the claim of its name, whatever labels that
// has.
func (p *pass) usesClaim(ordinal int) bool {
	size := p.seen.State.Size
	if p.seen.StatefulSet.Exists && p.seen.StatefulSet.OwnerUID == p.etcd.UID {
		size = max(size, p.seen.StatefulSet.SpecReplicas)
	}

	return ordinal < int(size)
}

func claimFor(object *corev1.PersistentVolumeClaim, ordinal int) etcdcluster.Claim {
	claim := etcdcluster.Claim{
		Name:         object.Name,
		Ordinal:      ordinal,
		Exists:       true,
		UID:          object.UID,
		CreationTime: object.CreationTimestamp.Time,
		Deleting:     object.DeletionTimestamp != nil,
		Bound:        object.Status.Phase == corev1.ClaimBound,
		Lost:         object.Status.Phase == corev1.ClaimLost,
		Volume:       object.Spec.VolumeName,
		Requested:    object.Spec.Resources.Requests.Storage().Value(),
		Capacity:     object.Status.Capacity.Storage().Value(),
	}
	for _, condition := range object.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending:
			claim.RemountSince = condition.LastTransitionTime.Time
		case condition.Type == corev1.PersistentVolumeClaimControllerResizeError, condition.Type == corev1.PersistentVolumeClaimNodeResizeError:
			claim.ResizeProblem = condition.Message
		}
	}
	if class := object.Spec.StorageClassName; class != nil {
		claim.StorageClass = *class
	}

	return claim
}

// warningsOf reads the warning events of a claim, no more than the newest two, sorted: two that are written in turn shall not
// look different each time.
func (p *pass) warningsOf(ctx context.Context, claim etcdcluster.Claim) []string {
	list := &corev1.EventList{}
	err := p.APIReader.List(ctx, list, client.InNamespace(p.etcd.Namespace), client.MatchingFields{
		"involvedObject.kind": "PersistentVolumeClaim", "involvedObject.name": claim.Name, "type": corev1.EventTypeWarning,
	})
	if err != nil {
		p.failed(etcdcluster.SectionClaimEvents, err)

		return nil
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int {
		return lastSeen(b).Compare(lastSeen(a))
	})
	var warnings []string
	for _, event := range list.Items {
		if event.InvolvedObject.UID == claim.UID && len(warnings) < 2 && !slices.Contains(warnings, event.Message) {
			warnings = append(warnings, event.Message)
		}
	}
	slices.Sort(warnings)

	return warnings
}

func lastSeen(event corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	default:
		return event.EventTime.Time
	}
}
