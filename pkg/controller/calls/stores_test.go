// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls_test

import (
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("StoreReservations", func() {
	store := func(prefix string) state.Store {
		return state.Store{Provider: "S3", Container: "c", Prefix: prefix, Endpoint: "e"}
	}

	user := func(name string) calls.StoreUser {
		return calls.StoreUser{Key: types.NamespacedName{Namespace: "ns", Name: name}}
	}

	It("lets one of many objects use a store", func() {
		reservations := calls.NewStoreReservations(testclock.NewFakeClock(time.Now()))
		var granted atomic.Int32
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if reservations.Reserve(user(string(rune('a'+i))), store("p")) {
					granted.Add(1)
				}
			})
		}
		all.Wait()
		Expect(granted.Load()).To(BeEquivalentTo(1))
	})

	It("holds until it is released or expires", func() {
		clock := testclock.NewFakeClock(time.Now())
		reservations := calls.NewStoreReservations(clock)
		Expect(reservations.Reserve(user("a"), store("p"))).To(BeTrue())
		Expect(reservations.Reserve(user("a"), store("p"))).To(BeTrue(), "again")
		Expect(reservations.Reserve(user("b"), store("p/q"))).To(BeFalse(), "nested")
		Expect(reservations.Reserve(user("b"), store("q"))).To(BeTrue(), "another store")
		reservations.Release(user("a"))
		Expect(reservations.Reserve(user("c"), store("p"))).To(BeTrue())
		clock.Step(4 * time.Minute)
		Expect(reservations.Reserve(user("d"), store("p"))).To(BeTrue())
	})

	It("is exclusive for an Etcd and a copy of the same name, but not for two copies", func() {
		reservations := calls.NewStoreReservations(testclock.NewFakeClock(time.Now()))
		first, second := user("a"), user("b")
		first.IsCopy, second.IsCopy = true, true
		Expect(reservations.Reserve(first, store("p"))).To(BeTrue())
		Expect(reservations.Reserve(second, store("p"))).To(BeTrue())
		Expect(reservations.Reserve(user("a"), store("p"))).To(BeFalse())
	})

	It("is optional", func() {
		var none *calls.StoreReservations
		Expect(none.Reserve(user("a"), store("p"))).To(BeTrue())
		none.Release(user("a"))
	})
})
