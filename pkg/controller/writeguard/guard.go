// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package writeguard

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

const (
	// Limit is the number of reconciliations of an object that may act within a Window without a new observation. A
	// reconciliation acts if it writes or gets a conflict.
	Limit = 30
	// Window is the period in which these reconciliations are counted.
	Window = time.Minute
	// FirstPause is the first pause of an object that reached the limit. Each further act doubles the pause.
	FirstPause = 10 * time.Second
	// LongestPause is the longest time between two reconciliations.
	LongestPause = 5 * time.Minute
	// resetPeriod is the time without an act after which the record of an object is reset. It is longer than the longest pause.
	resetPeriod = 2 * LongestPause
	// maxFingerprints is the number of distinct observations of one object that are kept, because a loop may alternate between
	// several.
	maxFingerprints = 64
)

// Guard counts the acts of the reconciliations of each object. The zero value is ready for use. It is safe for concurrent use.
type Guard struct {
	lock    sync.Mutex
	records map[types.NamespacedName]*record
}

// record is the history of one object.
type record struct {
	// observed has the fingerprints of previous observations.
	observed *lru.Cache
	// acts are the times of the acts within the window, and always that of the last act.
	acts []time.Time
	// pause is the current pause. 0: the object is in no loop.
	pause time.Duration
	// until is the time at which the pause ends.
	until time.Time
}

// Observe records an observation. Equal observations have equal fingerprints. It returns the time for which the reconciliation
// must wait. 0: it can continue. A new observation ends a pause and resets the count.
func (g *Guard) Observe(object types.NamespacedName, fingerprint string, now time.Time) time.Duration {
	g.lock.Lock()
	defer g.lock.Unlock()
	r := g.records[object]
	if r == nil || len(r.acts) > 0 && now.Sub(r.acts[len(r.acts)-1]) >= resetPeriod {
		r = &record{observed: lru.New(maxFingerprints)}
		g.set(object, r)
	}
	if _, known := r.observed.Get(fingerprint); known {
		return max(0, r.until.Sub(now))
	}
	r.observed.Add(fingerprint, nil)
	r.reset()

	return 0
}

// RecordActs records a reconciliation that acted. It returns the pause of the object, which is at most longest, and whether a
// loop begins. 0: no pause.
func (g *Guard) RecordActs(object types.NamespacedName, now time.Time, longest time.Duration) (pause time.Duration, begins bool) {
	g.lock.Lock()
	defer g.lock.Unlock()
	r := g.records[object]
	if r == nil {
		r = &record{observed: lru.New(maxFingerprints)}
		g.set(object, r)
	}
	r.expire(now)
	r.acts = append(slices.DeleteFunc(r.acts, func(at time.Time) bool { return now.Sub(at) >= Window }), now)
	switch {
	case r.pause > 0:
		r.pause = min(2*r.pause, longest)
	case len(r.acts) > Limit:
		r.pause, begins = FirstPause, true
	default:
		return 0, false
	}
	r.until = now.Add(r.pause)

	return r.pause, begins
}

// RecordNoActs records a reconciliation that did not act. It returns the time until the loop counts as ended, which is a window
// after its last pause. 0: the object is in no loop.
func (g *Guard) RecordNoActs(object types.NamespacedName, now time.Time) time.Duration {
	g.lock.Lock()
	defer g.lock.Unlock()
	r := g.records[object]
	if r == nil {
		return 0
	}
	r.expire(now)
	if r.pause == 0 {
		return 0
	}

	return r.until.Add(Window).Sub(now)
}

// IsLooping is true after an object reached the limit, until a new observation, or until a window without an act after the last
// pause.
func (g *Guard) IsLooping(object types.NamespacedName, now time.Time) bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	r := g.records[object]
	if r == nil {
		return false
	}
	r.expire(now)

	return r.pause > 0
}

// Delete deletes the record of a deleted object.
func (g *Guard) Delete(object types.NamespacedName) {
	g.lock.Lock()
	defer g.lock.Unlock()
	delete(g.records, object)
}

// expire ends the loop of an object that did not act for a window after its last pause.
func (r *record) expire(now time.Time) {
	if r.pause > 0 && now.Sub(r.until) >= Window {
		r.reset()
	}
}

func (r *record) reset() { r.acts, r.pause, r.until = nil, 0, time.Time{} }

func (g *Guard) set(object types.NamespacedName, r *record) {
	if g.records == nil {
		g.records = map[types.NamespacedName]*record{}
	}
	g.records[object] = r
}
