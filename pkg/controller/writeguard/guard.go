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
	// Limit is how many reconciliations of an object may act within a Window, without a new observation. To act is to write or to end in
	// a conflict.
	Limit = 30
	// Window is the time in which they are counted.
	Window = time.Minute
	// FirstPause is how long an object that reached the limit rests first. Each further act doubles the pause.
	FirstPause = 10 * time.Second
	// LongestPause is the longest time between two reconciliations.
	LongestPause = 5 * time.Minute
	// resetPeriod is after how much time without an act everything is forgotten. It is longer than the longest pause.
	resetPeriod = 2 * LongestPause
	// maxFingerprints is how many different observations of one object are distinguished: a loop may go through several.
	maxFingerprints = 64
)

// Guard counts the acts of the reconciliations of each object. The zero value is ready for use; it is safe for concurrent use.
type Guard struct {
	lock    sync.Mutex
	records map[types.NamespacedName]*record
}

// record is what is known of one object.
type record struct {
	// observed are the fingerprints of what was observed.
	observed *lru.Cache
	// acts are the times of the acts within the window, and of the last one in any case.
	acts []time.Time
	// pause is the current pause. 0: the object is in no loop.
	pause time.Duration
	// until is when the pause ends.
	until time.Time
}

// Observe takes note of an observation, by a fingerprint that equal observations have in common. It returns for how long the
// reconciliation has to wait; 0: it need not. A new observation ends a pause, and starts the count again.
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

// RecordActs takes note of a reconciliation that acted. It returns for how long the object has to rest, at most for the longest pause, and
// whether it was in no loop before; 0: it need not rest.
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

// RecordNoActs takes note of a reconciliation that did not act. It returns how long the object has to rest still before the loop counts as
// ended, which is a window after its last pause; 0: it is in no loop.
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

// IsLooping is true from when an object reached the limit until something new is observed, or it has rested.
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

// Delete drops what is known of an object that is gone.
func (g *Guard) Delete(object types.NamespacedName) {
	g.lock.Lock()
	defer g.lock.Unlock()
	delete(g.records, object)
}

// expire ends the loop of an object that has rested for a window after its last pause.
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
