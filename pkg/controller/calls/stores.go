// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// reservationPeriod is longer than a reconciliation, which times out after three minutes: later ones have read the caches with what was written under the reservation.
const reservationPeriod = 4 * time.Minute

// StoreReservations prevent that two objects begin to use the same store at the same time. An object reserves its store before the write from
// which others know it in the cache. The reservations are safe for concurrent use. Nil: every store is free.
type StoreReservations struct {
	clock  clock.PassiveClock
	mutex  sync.Mutex
	stores map[StoreUser]reservation
}

type reservation struct {
	store   state.Store
	expires time.Time
}

// StoreUser is the object that reserves a store.
type StoreUser struct {
	// Key is the namespace and the name of the object.
	Key types.NamespacedName
	// IsCopy is true for an EtcdCopyBackupsTask, and false for an Etcd. Two copies may write to the same store.
	IsCopy bool
}

// NewStoreReservations returns StoreReservations without any.
func NewStoreReservations(clock clock.PassiveClock) *StoreReservations {
	return &StoreReservations{clock: clock, stores: map[StoreUser]reservation{}}
}

// Reserve reserves a store for four minutes. It returns false if another object has reserved a store that collides with it.
func (s *StoreReservations) Reserve(user StoreUser, store state.Store) bool {
	if s == nil {
		return true
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := s.clock.Now()
	for other, reserved := range s.stores {
		switch {
		case !now.Before(reserved.expires):
			delete(s.stores, other)
		case other != user && (!other.IsCopy || !user.IsCopy) && backupstore.Conflict(user.Key.Namespace, store, other.Key.Namespace, reserved.store):
			return false
		}
	}
	s.stores[user] = reservation{store: store, expires: now.Add(reservationPeriod)}

	return true
}

// Release ends the reservation of an object that does not use the store any more.
func (s *StoreReservations) Release(user StoreUser) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.stores, user)
}
