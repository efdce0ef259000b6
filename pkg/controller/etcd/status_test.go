// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The events of an Etcd", func() {
	It("report each changed condition of the controller once", func() {
		k := kube.New(scheme)
		o := startOperator(k, nil)
		create(1)(k)
		o.run()
		update(relabel)(k)
		o.events, o.due = nil, k.Clock.Now()
		o.run()

		Expect(o.events).To(ContainElements(
			HavePrefix("NotAllMembersUpdated: Condition AllMembersUpdated is False: "), HavePrefix("AllMembersUpdated: Condition AllMembersUpdated is True: "),
		))
		observed := map[string]int{}
		for _, event := range o.events {
			observed[event]++
		}
		Expect(observed).To(HaveEach(1))
	})
})
