// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("The record of a store", func() {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	complete := state.Store{
		Provider: "ABS", Container: "c", Prefix: "p", Endpoint: "blob.core.windows.net", Account: "backups", SecretName: "s", ChangedAt: at, VerifiedAt: at,
	}

	It("has a persisted form that never changes", func() {
		Expect(complete.Marshal()).To(Equal(`{"provider":"ABS","container":"c","prefix":"p","endpoint":"blob.core.windows.net","account":"backups",` +
			`"secretName":"s","changedAt":"2026-01-02T03:04:05Z","verifiedAt":"2026-01-02T03:04:05Z"}`))
		Expect(state.ParseStore(`{"provider":"S3","container":"c","prefix":"p","later":1}`)).To(HaveValue(Equal(state.Store{Provider: "S3", Container: "c", Prefix: "p"})))
		Expect(state.Store{Provider: "S3", Container: "c", Prefix: "p"}.Marshal()).To(Equal(`{"provider":"S3","container":"c","prefix":"p"}`), "endpoint and account are not known")
	})

	It("names endpoint and account in the text if they are known", func() {
		Expect(complete.String()).To(Equal(`ABS container "c" prefix "p" endpoint "blob.core.windows.net" account "backups"`))
		Expect(state.Store{Provider: "S3", Container: "c", Prefix: "p", HostPath: "/d"}.String()).To(Equal(`S3 container "c" prefix "p"`))
	})

	text := func(endpoint, account string) string {
		return state.Store{Provider: "ABS", Container: `c"`, Prefix: `p\`, Endpoint: endpoint, Account: account}.String()
	}
	DescribeTable("compares texts", func(a, b string, expected bool) {
		Expect(state.IsSameStore(a, b)).To(Equal(expected))
		Expect(state.IsSameStore(b, a)).To(Equal(expected))
	},
		Entry("two equal ones", text("e", "a"), text("e", "a"), true),
		Entry("one without endpoint and account", text("", ""), text("e", "a"), true),
		Entry("one without the endpoint", text("", "a"), text("e", "a"), true),
		Entry("two endpoints", text("e", "a"), text("f", "a"), false),
		Entry("two endpoints of which one may be the other", text("example.com", "a"), text("example.com.svc", "a"), false),
		Entry("two accounts", text("e", "a"), text("e", "b"), false),
		Entry("one account that is unknown and two endpoints", text("e", ""), text("f", "b"), false),
		Entry("two prefixes", text("e", "a"), `ABS container "c" prefix "q" endpoint "e" account "a"`, false),
		Entry("a prefix with the text of an endpoint", `S3 container "c" prefix "p\" endpoint \"e"`, `S3 container "c" prefix "p"`, false),
		Entry("two texts of another form", "the store", "another store", false),
	)

	It("is read from its text", func() {
		expected := complete
		expected.SecretName, expected.ChangedAt, expected.VerifiedAt = "", time.Time{}, time.Time{}
		Expect(state.ParseStoreText(complete.String())).To(HaveValue(Equal(expected)))
		Expect(state.ParseStoreText(text("", ""))).To(HaveValue(Equal(state.Store{Provider: "ABS", Container: `c"`, Prefix: `p\`})))
		Expect(state.ParseStoreText("the store")).To(BeNil())
		Expect(state.ParseStoreText("")).To(BeNil())
	})

	It("compares texts without endpoint and account", func() {
		Expect(state.IsSameContainer(text("e", "a"), text("f", "b"))).To(BeTrue())
		Expect(state.IsSameContainer(text("e", "a"), `ABS container "d" prefix "p"`)).To(BeFalse())
	})
})
