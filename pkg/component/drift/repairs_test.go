// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drift_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/drift"
)

var _ = Describe("Repairs", func() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	It("allows one repair of an object in five minutes, and others meanwhile", func() {
		repairs := drift.ParseRepairs("", "a")
		Expect(repairs.Last("Service/main-client", now)).To(BeZero())
		repairs = repairs.With(now, "Service/main-client")
		Expect(repairs.Last("Service/main-client", now.Add(5*time.Minute-time.Second))).To(Equal(now))
		Expect(repairs.Last("Lease/main-0", now)).To(BeZero())
		Expect(repairs.Last("Service/main-client", now.Add(5*time.Minute))).To(BeZero())
	})

	It("can be decoded from its text form, only for the same rendering", func() {
		text := drift.Repairs{Rendering: "a"}.With(now, "Service/main-client").String()
		Expect(text).To(Equal(`{"rendering":"a","at":{"Service/main-client":"2026-01-01T12:00:00Z"}}`))
		Expect(drift.ParseRepairs(text, "a").Last("Service/main-client", now)).To(Equal(now))
		Expect(drift.ParseRepairs(text, "b").Last("Service/main-client", now)).To(BeZero())
		Expect(drift.ParseRepairs("{", "a")).To(Equal(drift.Repairs{Rendering: "a"}))
	})

	It("removes expired repairs, and those of objects that the operator deleted", func() {
		repairs := drift.Repairs{Rendering: "a"}.With(now, "Service/main-client").With(now.Add(time.Minute), "StatefulSet/main")
		Expect(repairs.With(now.Add(5*time.Minute), "Role/main").At).To(And(HaveLen(2), HaveKey("StatefulSet/main"), HaveKey("Role/main")))
		Expect(repairs.Without("StatefulSet/main").At).To(HaveLen(1))
	})

	It("repairs at once after the clock was set back", func() {
		Expect(drift.Repairs{}.With(now, "Role/main").Last("Role/main", now.Add(-time.Hour))).To(BeZero())
	})
})
