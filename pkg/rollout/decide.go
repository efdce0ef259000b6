// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Cluster is what a decision needs of one Etcd that is not being deleted.
type Cluster struct {
	// Key is the namespace and the name, separated by a slash.
	Key string
	// UID decides the order of the Etcds that wait for one change, because the author of an Etcd does not choose it. Empty: the key does.
	UID types.UID
	// Zones are the zones of its members, sorted. Nil: not known.
	Zones []string
	// Defaults is the fingerprint of the defaults that are rendered.
	Defaults string
	// Waits is the fingerprint of the defaults for which it waits. Empty: it does not wait.
	Waits string
	// Update is the update to Defaults. Nil: it was created with them, or a change of the spec brought them.
	Update *state.Rollout
	// Members are the members in the spec.
	Members int
	// Healthy is true if all members are ready.
	Healthy bool
	// HealthChangedAt is when Healthy last changed. Zero: not known.
	HealthChangedAt time.Time
	// Hibernated is true if the spec has no members, and Suspended if the operator does not reconcile it.
	Hibernated, Suspended bool
	// Declined is true if it has not used its last grant, for example because its Secrets are missing.
	Declined bool
	// Tried is true if an Etcd in its namespace was granted the change for which it waits as a canary. That Etcd may not exist any more.
	Tried bool

	// place is the place among the Etcds that wait for the same change.
	place uint64
}

// Reason is why an Etcd does not have the newest defaults, or not successfully.
type Reason string

// The reasons.
const (
	// WaitingForCanary is the reason until the canaries of the change have passed.
	WaitingForCanary Reason = druidv1alpha1.ReasonWaitingForCanary
	// WaitingForSlot is the reason while as many Etcds are updated as the limits allow.
	WaitingForSlot Reason = druidv1alpha1.ReasonWaitingForSlot
	// RolloutStopped is the reason after the canaries of a change have failed, and while all slots belong to failed updates.
	RolloutStopped Reason = druidv1alpha1.ReasonRolloutStopped
	// UpdateFailed is the reason for an Etcd that was healthy before its update, and is not since.
	UpdateFailed Reason = druidv1alpha1.ReasonUpdateFailed
)

// Delay is why an Etcd does not have the newest defaults, or not successfully.
type Delay struct {
	state.Change

	// Reason is the reason.
	Reason Reason
	// StartedAt is when an update has begun that has failed. Zero: no update of this Etcd has failed.
	StartedAt time.Time
}

// Message explains a delay. It names no other Etcd.
func (d Delay) Message() string {
	change := fmt.Sprintf("The defaults of the operator change from %s to %s. ", Describe(d.From), Describe(d.To))
	switch d.Reason {
	case WaitingForCanary:
		return change + "Other Etcds are updated first, and must be ready for some minutes. The members run with the earlier defaults"
	case WaitingForSlot:
		return change + "As many Etcds are updated as the limits of the operator allow. The members run with the earlier defaults"
	case RolloutStopped:
		return change + "The update of other Etcds has failed, and no other Etcd follows. The members run with the earlier defaults"
	case UpdateFailed:
		return change + fmt.Sprintf("The update began at %s. Since then, the members are not ready, or their pods were not replaced", d.StartedAt.UTC().Format(time.RFC3339))
	default:
		return change
	}
}

// Progressed is the progress of a change.
type Progressed struct {
	state.Change

	// Waiting, Updating, Failed and Updated are numbers of Etcds. Updating Etcds have slots, and have not failed. Updated ones have passed.
	Waiting, Updating, Failed, Updated int
	// Stopped is true after canaries in two namespaces have failed, and while all slots belong to failed updates. It is also true after one canary has
	// failed if no other namespace has an Etcd that can be one.
	Stopped bool
}

// Decision is which Etcds begin an update now.
type Decision struct {
	// Grants are the updates that may begin, by the key of the Etcd. They have no time.
	Grants map[string]state.Rollout
	// Delays are why other Etcds wait, and which updates have failed, by the key of the Etcd.
	Delays map[string]Delay
	// Changes are the changes with Etcds that wait or whose update has not passed, sorted.
	Changes []Progressed
}

// Decide decides which Etcds begin an update now. The clusters include the updates that were granted and are not recorded yet.
func Decide(clusters []Cluster, limits Limits, now time.Time) Decision {
	f := newFleet(clusters, limits, now)
	f.grantBroken()
	f.grantCanaries()
	f.grantUnhealthy()
	f.grantOthers()

	return Decision{Grants: f.grants, Delays: f.delays(), Changes: f.changes()}
}

// change returns the change that a cluster waits for.
func (c *Cluster) change() state.Change { return state.Change{From: c.Defaults, To: c.Waits} }

func (c *Cluster) namespace() string { return namespaceOf(c.Key) }

func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")

	return namespace
}

// placeIn returns the place among the Etcds that wait for a change. It is another one for each change.
func placeIn(change state.Change, uid types.UID) uint64 {
	sum := sha256.Sum256([]byte(change.From + "\n" + change.To + "\n" + string(uid)))

	return binary.BigEndian.Uint64(sum[:])
}

// usesSlot is true for an update that has not passed. An Etcd that was not healthy before uses a slot only for a limited time: nothing may repair it.
func (c *Cluster) usesSlot(timeout time.Duration, now time.Time) bool {
	return c.Update.IsUnfinished() && !c.Hibernated && (!c.Suspended || !c.Healthy) &&
		(c.Update.Healthy || c.Healthy || now.Before(c.Update.StartedAt.Add(timeout)))
}

// overdueAfter is after how many timeouts an update has failed that has not passed. Its pods may not be replaced, or be ready only for short times.
// The rollout would otherwise wait for it without an end, and without an alert.
const overdueAfter = 6

// hasFailed is true for an Etcd with a slot that was healthy before, and is not for the timeout. It is also true for one whose update is overdue.
func (c *Cluster) hasFailed(timeout time.Duration, now time.Time) bool {
	if !c.usesSlot(timeout, now) {
		return false
	}
	isBroken := c.Update.Healthy && !c.Healthy && !now.Before(later(c.Update.StartedAt, c.HealthChangedAt).Add(timeout))

	return isBroken || !now.Before(c.Update.StartedAt.Add(overdueAfter*timeout))
}

// isUnhealthy is true for an Etcd that is not healthy for the timeout, or since an unknown time. A shorter time can be a restart, for example for a
// change of the spec. Such an Etcd waits: its update would not count as failed, because it was not healthy before.
func (c *Cluster) isUnhealthy(timeout time.Duration, now time.Time) bool {
	return !c.Healthy && !now.Before(c.HealthChangedAt.Add(timeout))
}

// fleet is a decision in progress.
type fleet struct {
	limits Limits
	now    time.Time
	// waiting are the clusters that wait, in the order in which they are updated.
	waiting []*Cluster
	all     []Cluster
	usage   map[scope]*usage
	changed map[state.Change]*canaries
	grants  map[string]state.Rollout
}

func newFleet(clusters []Cluster, limits Limits, now time.Time) *fleet {
	f := &fleet{
		limits: limits, now: now, all: slices.Clone(clusters), usage: map[scope]*usage{}, changed: map[state.Change]*canaries{}, grants: map[string]state.Rollout{},
	}
	for i := range f.all {
		f.all[i].place = placeIn(f.all[i].change(), f.all[i].UID)
	}
	slices.SortFunc(f.all, func(a, b Cluster) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.Key, b.Key)) })
	changesFrom := map[string][]state.Change{}
	for i := range f.all {
		c := &f.all[i]
		if c.Waits != "" && !c.Suspended {
			f.waiting = append(f.waiting, c)
			if f.changed[c.change()] == nil {
				f.changed[c.change()] = newCanaries()
				changesFrom[c.Defaults] = append(changesFrom[c.Defaults], c.change())
			}
		}
	}
	for i := range f.all {
		f.count(&f.all[i], changesFrom)
	}
	slices.SortStableFunc(f.waiting, func(a, b *Cluster) int { return compareBools(a.Declined, b.Declined) })

	return f
}

func (f *fleet) isProven(change state.Change) bool {
	return f.changed[change].passed >= f.limits.Canaries
}

func (f *fleet) isGranted(c *Cluster) bool {
	_, granted := f.grants[c.Key]

	return granted
}

// grant lets an update begin.
func (f *fleet) grant(c *Cluster, isCanary bool) {
	granted := state.Rollout{Change: c.change(), Canary: isCanary, Healthy: c.Healthy, Zones: c.slotZones()}
	if c.usesSlot(f.limits.Timeout, f.now) {
		granted.Healthy = granted.Healthy || c.Update.Healthy // it is not healthy because of an update
		f.use(c, *c.Update, -1, c.hasFailed(f.limits.Timeout, f.now))
	}
	f.grants[c.Key] = granted
	f.use(c, granted, 1, false)
	if isCanary {
		of := f.changed[granted.Change]
		of.running++
		of.tried[c.namespace()] = true
	}
}

// grantBroken lets newer defaults replace those with which an Etcd is not healthy. It has a slot, and nothing is disrupted.
func (f *fleet) grantBroken() {
	for _, c := range f.waiting {
		if !c.Healthy && c.usesSlot(f.limits.Timeout, f.now) {
			f.grant(c, false)
		}
	}
}

// grantCanaries begins changes with healthy Etcds. Those in namespaces without a canary come first, and then multi-member clusters.
func (f *fleet) grantCanaries() {
	ordered := slices.Clone(f.waiting)
	hasFailed := func(c *Cluster) bool { return c.hasFailed(f.limits.Timeout, f.now) }
	slices.SortStableFunc(ordered, func(a, b *Cluster) int {
		return cmp.Or(compareBools(a.Declined, b.Declined), compareBools(hasFailed(a), hasFailed(b)), compareBools(a.Members < 2, b.Members < 2))
	})
	for _, again := range []bool{false, true} {
		for _, c := range ordered {
			if f.changed[c.change()].tried[c.namespace()] == again {
				f.grantCanary(c)
			}
		}
	}
}

// grantCanary begins a change with an Etcd if the change needs another canary.
func (f *fleet) grantCanary(c *Cluster) {
	of := f.changed[c.change()]
	if !c.Healthy || c.Hibernated || f.isGranted(c) || of.failed.countFor(c.namespace()) > 0 || of.passed+of.running >= f.limits.Canaries {
		return
	}
	if _, blocked := f.blocking(c); !blocked {
		f.grant(c, true)
	}
}

// grantUnhealthy updates Etcds that are not healthy before others, because they may need the new defaults. They use at most half of the slots, so that
// those that nothing repairs do not delay the others.
func (f *fleet) grantUnhealthy() {
	for _, c := range f.waiting {
		of, unhealthy := f.changed[c.change()], scope{kind: "unhealthy"}
		isAlone := !of.isOpen() && of.failed.countFor(c.namespace()) == 0
		if !c.isUnhealthy(f.limits.Timeout, f.now) || c.Hibernated || f.isGranted(c) || !f.isProven(c.change()) && !isAlone || f.in(unhealthy).usedFor(c.namespace()) >= f.limitOf(unhealthy) {
			continue
		}
		if _, blocked := f.blocking(c); !blocked {
			f.grant(c, false)
		}
	}
}

// grantOthers updates healthy Etcds after the canaries have passed. Hibernated ones have nothing that could be disrupted.
func (f *fleet) grantOthers() {
	for _, c := range f.waiting {
		if f.isGranted(c) || !c.Healthy && !c.Hibernated || !f.isProven(c.change()) {
			continue
		}
		if c.Hibernated {
			f.grants[c.Key] = state.Rollout{Change: c.change()}

			continue
		}
		if _, blocked := f.blocking(c); !blocked {
			f.grant(c, false)
		}
	}
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
