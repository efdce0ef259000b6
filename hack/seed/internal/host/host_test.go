// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/host"
)

var _ = Describe("ParseMounts", func() {
	const mounts = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 22 0:30 / /seed rw - tmpfs tmpfs rw
41 40 0:31 / /seed/n1/pods/a rw - tmpfs tmpfs rw
42 22 0:32 / /seedling rw - tmpfs tmpfs rw
43 41 0:33 / /seed/n1/pods/a/b\040c rw - tmpfs tmpfs rw
`

	It("returns what is at or below the folder, the latest first, and no namesake", func() {
		Expect(host.ParseMounts(mounts, "/seed")).To(HaveExactElements("/seed/n1/pods/a/b c", "/seed/n1/pods/a", "/seed"))
	})

	It("returns nothing when nothing is mounted", func() {
		Expect(host.ParseMounts(mounts, "/other")).To(BeEmpty())
	})
})
