// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Turns keep two controllers of one process from doing something risky to the same cluster at the same time: each sees what the
// other one does by way of the API, and so a moment late. It is safe for concurrent use. Nil: everybody may always go.
type Turns struct {
	clock clock.PassiveClock
	lock  sync.Mutex
	turns map[types.UID]turn
}

// turn is taken by who, or was until a moment ago.
type turn struct {
	who   string
	taken bool
	rests time.Time
}

// NewTurns returns Turns that nobody has taken.
func NewTurns(clock clock.PassiveClock) *Turns {
	return &Turns{clock: clock, turns: map[types.UID]turn{}}
}

// Take takes the turn for the object with the UID. False: it is taken, or another one had it too lately; whoever asks comes again.
func (t *Turns) Take(uid types.UID, who string) bool {
	if t == nil {
		return true
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	if last := t.turns[uid]; last.taken || last.who != who && t.clock.Now().Before(last.rests) {
		return false
	}
	t.turns[uid] = turn{who: who, taken: true}

	return true
}

// Give gives the turn back, to be taken by others after a rest in which all see what was done.
func (t *Turns) Give(uid types.UID, rest time.Duration) {
	if t == nil {
		return
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	for other, last := range t.turns { // what is over is forgotten
		if !last.taken && !t.clock.Now().Before(last.rests) {
			delete(t.turns, other)
		}
	}
	t.turns[uid] = turn{who: t.turns[uid].who, rests: t.clock.Now().Add(rest)}
}
