// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Outcome is what a reconciliation did with a grant.
type Outcome string

// The outcomes.
const (
	// Written means that the update was written, or that it is not known whether it was.
	Written Outcome = "Written"
	// Declined means that the update cannot begin now.
	Declined Outcome = "Declined"
	// Preparing means that the update begins after something else, such as a full snapshot. It keeps its slot, and the reconciliation is repeated soon.
	Preparing Outcome = "Preparing"
	// Interrupted means that the reconciliation is repeated soon.
	Interrupted Outcome = "Interrupted"
)

const (
	// unusedFor is how long a grant waits for a reconciliation.
	unusedFor = 5 * time.Minute
	// unrecordedFor is how long a grant whose update was written uses a slot although the caches do not show the record. The write may have failed.
	unrecordedFor = 10 * time.Minute
	// declinedFor is how long other Etcds come first after an Etcd has declined a grant, or has not used it.
	declinedFor = 10 * time.Minute
)

// Grants are the grants that the records of Etcds do not show yet. They are in memory: another leader grants again what was not used. The zero value is
// ready to use. The caller serializes all calls.
type Grants struct {
	granted  map[string]*grant
	declined map[string]time.Time
	// tried are the namespaces with a canary of each change for which Etcds wait. Its record may not exist any more, because the Etcd was deleted.
	tried map[state.Change]map[string]bool
}

type grant struct {
	state.Rollout

	at time.Time
	// inUse is true during a reconciliation that may use the grant.
	inUse bool
	// written is true once the update may have been written.
	written bool
}

// Add adds the grants of a decision.
func (g *Grants) Add(decided map[string]state.Rollout, now time.Time) {
	if g.granted == nil {
		g.granted, g.declined, g.tried = map[string]*grant{}, map[string]time.Time{}, map[state.Change]map[string]bool{}
	}
	for key, rollout := range decided {
		rollout.StartedAt = now
		g.granted[key] = &grant{Rollout: rollout, at: now}
		if !rollout.Canary {
			continue
		}
		if g.tried[rollout.Change] == nil {
			g.tried[rollout.Change] = map[string]bool{}
		}
		g.tried[rollout.Change][namespaceOf(key)] = true
	}
}

// Begin returns the grant of an Etcd at the begin of its reconciliation. Nil: it has none. The caller calls End after the reconciliation.
func (g *Grants) Begin(key string) *state.Rollout {
	found := g.granted[key]
	if found == nil {
		return nil
	}
	found.inUse = true
	rollout := found.Rollout

	return &rollout
}

// End ends the use of a grant by a reconciliation.
func (g *Grants) End(key string, outcome Outcome, now time.Time) {
	found := g.granted[key]
	if found == nil {
		return
	}
	found.inUse = false
	switch {
	case outcome == Written && !found.written:
		found.written, found.at = true, now
	case outcome == Preparing && !found.written:
		found.at = now
	case outcome == Declined && !found.written:
		delete(g.granted, key)
		g.declined[key] = now
	}
}

// Merge returns the clusters with the grants that their records do not show yet, and drops the others.
func (g *Grants) Merge(clusters []Cluster, now time.Time) []Cluster {
	merged, known, waited := slices.Clone(clusters), map[string]bool{}, map[state.Change]bool{}
	for i := range merged {
		c := &merged[i]
		known[c.Key], waited[c.change()] = true, true
		c.Tried = g.tried[c.change()][c.namespace()]
		switch found := g.granted[c.Key]; {
		case found == nil:
		case found.isRecorded(*c):
			delete(g.granted, c.Key)
		case found.isExpired(now):
			delete(g.granted, c.Key)
			g.declined[c.Key] = now // else it would get the slot of all others again and again
		default:
			c.Update, c.Waits = &found.Rollout, ""
		}
		at, declined := g.declined[c.Key]
		c.Declined = declined && now.Before(at.Add(declinedFor))
	}
	maps.DeleteFunc(g.granted, func(key string, found *grant) bool { return !known[key] && !found.inUse })
	maps.DeleteFunc(g.tried, func(change state.Change, _ map[string]bool) bool { return !waited[change] })
	maps.DeleteFunc(g.declined, func(key string, at time.Time) bool { return !known[key] || !now.Before(at.Add(declinedFor)) })

	return merged
}

// isRecorded is true if the record of the Etcd shows the update. That of a hibernated Etcd has only the defaults.
func (g *grant) isRecorded(c Cluster) bool {
	return g.written && c.Defaults == g.To && (c.Update == nil || c.Update.Change != g.Change || !c.Update.StartedAt.Before(g.at.Add(-unusedFor)))
}

func (g *grant) isExpired(now time.Time) bool {
	switch {
	case g.inUse:
		return false
	case g.written:
		return !now.Before(g.at.Add(unrecordedFor))
	default:
		return !now.Before(g.at.Add(unusedFor))
	}
}
