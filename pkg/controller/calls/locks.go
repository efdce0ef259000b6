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
type ClusterLocks struct {
	clock clock.PassiveClock
	mutex sync.Mutex
	locks map[types.UID]clusterLock
}

// clusterLock is taken by who, or was until a moment ago.
type clusterLock struct {
	holder      string
	isHeld      bool
	cooldownEnd time.Time
}

// NewClusterLocks returns Turns that nobody has taken.
func NewClusterLocks(clock clock.PassiveClock) *ClusterLocks {
	return &ClusterLocks{clock: clock, locks: map[types.UID]clusterLock{}}
}

// TryLock takes the turn for the object with the UID. False: it is taken, or another one had it too lately; whoever asks comes again.
func (t *ClusterLocks) TryLock(uid types.UID, holder string) bool {
	if t == nil {
		return true
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if last := t.locks[uid]; last.isHeld || last.holder != holder && t.clock.Now().Before(last.cooldownEnd) {
		return false
	}
	t.locks[uid] = clusterLock{holder: holder, isHeld: true}

	return true
}

// Unlock gives the turn back, to be taken by others after a rest in which all see what was done.
func (t *ClusterLocks) Unlock(uid types.UID, cooldown time.Duration) {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for other, last := range t.locks { // what is over is forgotten
		if !last.isHeld && !t.clock.Now().Before(last.cooldownEnd) {
			delete(t.locks, other)
		}
	}
	t.locks[uid] = clusterLock{holder: t.locks[uid].holder, cooldownEnd: t.clock.Now().Add(cooldown)}
}
