// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdversion_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
)

var _ = DescribeTable("the minor version of a reported version",
	func(reported, minor string) { Expect(etcdversion.MinorOf(reported)).To(Equal(minor)) },
	Entry("of 3.4", "3.4.34", "3.4"),
	Entry("of a pre-release", "3.6.0-rc.1", "3.6"),
	Entry("without a patch version", "3.5", "3.5"),
	Entry("is unknown without a report", "", ""),
	Entry("drops other text that the member reports", "3.5.27; text", "3.5"),
	Entry("is unknown if the member reports no version", "not decided", ""),
	Entry("is unknown without a minor version", "3", ""),
)

var _ = DescribeTable("the minor version in an image of etcd-wrapper",
	func(image, minor string) { Expect(etcdversion.OfWrapper(image)).To(Equal(minor)) },
	Entry("of 3.4", "example.com/gardener/etcd-wrapper:v0.6.2", "3.4"),
	Entry("of 3.5", "example.com/gardener/etcd-wrapper:v0.7.0", "3.5"),
	Entry("at a registry with a port", "example.com:5000/etcd-wrapper:v0.7.3", "3.5"),
	Entry("is unknown if the image has another name", "example.com/etcd-custom:v0.7.0", ""),
	Entry("is unknown if the tag is newer than all that are known", "example.com/etcd-wrapper:v0.8.0", ""),
	Entry("with a digest", "etcd-wrapper:v0.6.2@sha256:0a1b", "3.4"),
	Entry("is unknown without a tag", "example.com:5000/etcd-wrapper@sha256:0a1b", ""),
	Entry("is unknown if the tag is no complete version", "etcd-wrapper:1", ""),
	Entry("is unknown without an image", "", ""),
)

var _ = DescribeTable("the order of minor versions",
	func(a, b string, order int) {
		Expect(etcdversion.Compare(a, b)).To(Equal(order))
		Expect(etcdversion.Compare(b, a)).To(Equal(-order))
	},
	Entry("newer", "3.5", "3.4", 1),
	Entry("the same", "3.5", "3.5", 0),
	Entry("by number, not by text", "3.10", "3.9", 1),
	Entry("a version that is not known is 3.4", "", "3.4", 0),
	Entry("no version", "3.4", "latest", 1),
)

var _ = DescribeTable("a change between minor versions",
	func(from, to string, allowed bool) { Expect(etcdversion.IsAdjacent(from, to)).To(Equal(allowed)) },
	Entry("an upgrade", "3.4", "3.5", true),
	Entry("an upgrade of a version that is not known", "", "3.5", true),
	Entry("a downgrade", "3.5", "3.4", true),
	Entry("no change", "3.5", "3.5", true),
	Entry("to a version without images", "3.5", "3.6", false),
	Entry("from a version without images", "3.3", "3.4", false),
)

var _ = DescribeTable("the newer of two minor versions",
	func(a, b, newer string) {
		Expect(etcdversion.Max(a, b)).To(Equal(newer))
		Expect(etcdversion.Max(b, a)).To(Equal(newer))
	},
	Entry("an upgrade", "3.4", "3.5", "3.5"),
	Entry("of versions that are not known", "", "", "3.4"),
)

var _ = It("supports the versions for which the operator has images", func() {
	Expect(etcdversion.Newest()).To(Equal("3.5"))
	Expect(etcdversion.IsSupported("3.4")).To(BeTrue())
	Expect(etcdversion.IsSupported("3.6")).To(BeFalse())
})
