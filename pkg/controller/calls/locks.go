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

// ClusterLocks prevent that two controllers of one process change the same cluster at the same time. Each controller sees the
// changes of the other one in its cache, and therefore with a delay. The locks are safe for concurrent use. Nil: every lock is
// always free.
type ClusterLocks struct {
	clock clock.PassiveClock
	mutex sync.Mutex
	locks map[types.UID]clusterLock
}

// clusterLock is held by holder, or was held by it until shortly before cooldownEnd.
type clusterLock struct {
	holder      string
	isHeld      bool
	cooldownEnd time.Time
}

// NewClusterLocks returns ClusterLocks that are all free.
func NewClusterLocks(clock clock.PassiveClock) *ClusterLocks {
	return &ClusterLocks{clock: clock, locks: map[types.UID]clusterLock{}}
}

// TryLock locks the object with the UID for the holder. It returns false if the lock is held, or if the cooldown of another
// holder has not ended. The caller then tries again later.
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

// Unlock releases the lock. Other holders can lock the object after the cooldown, in which the caches receive the changes.
func (t *ClusterLocks) Unlock(uid types.UID, cooldown time.Duration) {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for other, last := range t.locks { // delete expired locks
		if !last.isHeld && !t.clock.Now().Before(last.cooldownEnd) {
			delete(t.locks, other)
		}
	}
	t.locks[uid] = clusterLock{holder: t.locks[uid].holder, cooldownEnd: t.clock.Now().Add(cooldown)}
}
