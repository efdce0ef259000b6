// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// scope is a set of Etcds with a limit: all, those in a zone, those with a change, or those that were not healthy before.
type scope struct {
	zone   string
	change state.Change
	kind   string
}

// usage are the slots of a scope.
type usage struct {
	etcds, used int
	// failed are the slots of updates that have failed.
	failed tally
}

// usedFor are the slots in use for an Etcd in a namespace.
func (u *usage) usedFor(namespace string) int {
	return u.used - u.failed.total + u.failed.countFor(namespace)
}

// count counts a cluster and its update.
func (f *fleet) count(c *Cluster, changesFrom map[string][]state.Change) {
	if !c.Hibernated {
		f.countEtcd(c, changesFrom[c.Defaults])
	}
	if c.Waits != "" && !c.Suspended {
		f.changed[c.change()].countWaiting(c, !c.isUnhealthy(f.limits.Timeout, f.now) && !c.Hibernated)
	}
	if c.Update == nil {
		return
	}
	uses, failed := c.usesSlot(f.limits.Timeout, f.now), c.hasFailed(f.limits.Timeout, f.now)
	if uses {
		f.use(c, *c.Update, 1, failed)
	}
	if c.Update.Canary {
		f.countCanary(c, uses, failed)
	}
}

// countEtcd counts a cluster for the percentages. changes are those that begin with its defaults.
func (f *fleet) countEtcd(c *Cluster, changes []state.Change) {
	scopes := append(zonesOf(c.Zones), scope{kind: "total"})
	for _, change := range changes {
		scopes = append(scopes, scope{kind: "change", change: change})
	}
	if c.Update != nil && !slices.Contains(changes, c.Update.Change) {
		scopes = append(scopes, scope{kind: "change", change: c.Update.Change})
	}
	for _, in := range scopes {
		f.in(in).etcds++
	}
}

func (f *fleet) countCanary(c *Cluster, uses, failed bool) {
	counted := f.changed[c.Update.Change]
	if counted == nil {
		counted = newCanaries()
		f.changed[c.Update.Change] = counted
	}
	counted.tried[c.namespace()] = true
	switch {
	case c.Update.HasPassed():
		counted.passed++
	case failed:
		counted.failed.add(c.namespace(), 1)
	case uses:
		counted.running++
		counted.open.add(c.namespace(), 1)
	}
}

// slotZones are the zones in which an update uses slots. Those before an update that has not passed count, because pods may not be scheduled now.
func (c *Cluster) slotZones() []string {
	if c.Update.IsUnfinished() && len(c.Update.Zones) > 0 {
		return c.Update.Zones
	}

	return c.Zones
}

func zonesOf(zones []string) []scope {
	if len(zones) == 0 {
		return []scope{{kind: "zone"}}
	}
	var scopes []scope
	for _, zone := range zones {
		scopes = append(scopes, scope{kind: "zone", zone: zone})
	}

	return scopes
}

func scopesOf(change state.Change, zones []string) []scope {
	return append(zonesOf(zones), scope{kind: "total"}, scope{kind: "change", change: change})
}

func (f *fleet) in(s scope) *usage {
	if f.usage[s] == nil {
		f.usage[s] = &usage{}
	}

	return f.usage[s]
}

// use adds the slots of an update of a cluster. A negative number removes what the same update has added.
func (f *fleet) use(c *Cluster, update state.Rollout, slots int, failed bool) {
	scopes := scopesOf(update.Change, c.slotZones())
	if !update.Healthy {
		scopes = append(scopes, scope{kind: "unhealthy"})
	}
	for _, s := range scopes {
		f.in(s).used += slots
		if failed {
			f.in(s).failed.add(c.namespace(), slots)
		}
	}
}

func (f *fleet) limitOf(s scope) int {
	limit := f.limits.Total
	switch s.kind {
	case "unhealthy":
		return max(1, f.limitOf(scope{kind: "total"})/2)
	case "zone":
		limit = f.limits.PerZone
	case "change":
		limit = f.limits.PerChange
	}

	return limit.Of(f.in(s).etcds)
}

// blocking returns a scope without a free slot for a cluster. An update that has not passed keeps its slots in total and in its zones. False: there is none.
func (f *fleet) blocking(c *Cluster) (scope, bool) {
	hasSlot := c.usesSlot(f.limits.Timeout, f.now)
	for _, s := range scopesOf(c.change(), c.slotZones()) {
		if (!hasSlot || s.kind == "change") && f.in(s).usedFor(c.namespace()) >= f.limitOf(s) {
			return s, true
		}
	}

	return scope{}, false
}
