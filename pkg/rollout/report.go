// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// delays are why clusters wait, and which have failed.
func (f *fleet) delays() map[string]Delay {
	delays := map[string]Delay{}
	for i := range f.all {
		c := &f.all[i]
		switch {
		case f.isGranted(c):
		case c.hasFailed(f.limits.Timeout, f.now):
			delays[c.Key] = Delay{Change: c.Update.Change, Reason: UpdateFailed, StartedAt: c.Update.StartedAt}
		case c.Waits != "" && !c.Suspended:
			delays[c.Key] = Delay{Change: c.change(), Reason: f.reasonFor(c)}
		}
	}

	return delays
}

func (f *fleet) reasonFor(c *Cluster) Reason {
	if !f.isProven(c.change()) {
		if f.changed[c.change()].isStopped() {
			return RolloutStopped
		}

		return WaitingForCanary
	}
	if s, blocked := f.blocking(c); blocked && f.in(s).failed.total >= f.in(s).used {
		return RolloutStopped
	}

	return WaitingForSlot
}

// changes are the changes in progress.
func (f *fleet) changes() []Progressed {
	found := map[state.Change]*Progressed{}
	of := func(change state.Change) *Progressed {
		if found[change] == nil {
			found[change] = &Progressed{Change: change}
		}

		return found[change]
	}
	for i := range f.all {
		c := &f.all[i]
		if c.Waits != "" && !c.Suspended && !f.isGranted(c) {
			waits := of(c.change())
			waits.Waiting++
			waits.Stopped = waits.Stopped || f.reasonFor(c) == RolloutStopped
		}
		if granted, isGranted := f.grants[c.Key]; isGranted {
			of(granted.Change).Updating++
		} else if c.Update != nil && c.usesSlot(f.limits.Timeout, f.now) {
			f.addUpdate(of(c.Update.Change), c)
		}
	}
	for i := range f.all {
		if c := &f.all[i]; c.Update.HasPassed() && found[c.Update.Change] != nil {
			found[c.Update.Change].Updated++
		}
	}
	var changes []Progressed
	for _, change := range found {
		changes = append(changes, *change)
	}
	slices.SortFunc(changes, func(a, b Progressed) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })

	return changes
}

// addUpdate adds an update with a slot to its change.
func (f *fleet) addUpdate(to *Progressed, c *Cluster) {
	if !c.hasFailed(f.limits.Timeout, f.now) {
		to.Updating++

		return
	}
	to.Failed++
	to.Stopped = to.Stopped || c.Update.Canary && !f.isProven(c.Update.Change) && f.changed[c.Update.Change].isStopped()
}
