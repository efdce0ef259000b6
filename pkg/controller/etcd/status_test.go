// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/world"
)

var _ = Describe("The events of an Etcd", func() {
	It("tell each condition of the controller that changes, once", func() {
		w := world.New(scheme)
		o := startOperator(w, nil)
		create(1)(w)
		o.run()
		update(relabel)(w)
		o.events, o.due = nil, w.Clock.Now()
		o.run()

		Expect(o.events).To(ContainElements(
			HavePrefix("NotAllMembersUpdated: Condition AllMembersUpdated is False: "), HavePrefix("AllMembersUpdated: Condition AllMembersUpdated is True: "),
		))
		seen := map[string]int{}
		for _, event := range o.events {
			seen[event]++
		}
		Expect(seen).To(HaveEach(1))
	})
})
