// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

var _ = Describe("LocalRoots", func() {
	roots := backupstore.LocalRoots{"/etc/gardener/local-backupbuckets", "/srv/backups"}

	DescribeTable("#Locate", func(roots backupstore.LocalRoots, container, hostPath, expected, message string) {
		store, err := roots.Locate(backupstore.Store{Provider: "Local", Container: container, SecretName: "local"}, hostPath)
		if message != "" {
			Expect(err).To(MatchError(ContainSubstring(message)))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(store.HostPath).To(Equal(expected))
		Expect(store.Container).To(Equal(container))
	},
		Entry("the default directory", roots, "bucket", "", "/etc/gardener/local-backupbuckets", ""),
		Entry("a listed directory", roots, "bucket", "/srv/backups", "/srv/backups", ""),
		Entry("no directory listed", nil, "bucket", "", "", `the Local store is in directory "/etc/gardener/local-backupbuckets" on the node, but localStore.roots of the operator's configuration lists no directory`),
		Entry("no directory listed, one named", nil, "bucket", "/srv", "", `key hostPath of Secret local names directory "/srv" on the node, but localStore.roots of the operator's configuration lists no directory`),
		Entry("the default directory, not listed", backupstore.LocalRoots{"/srv/backups"}, "bucket", "", "", "lists only /srv/backups: name one of these under key hostPath"),
		Entry("the parent of a root", roots, "local-backupbuckets", "/etc/gardener", "", `key hostPath of Secret local names directory "/etc/gardener" on the node, but localStore.roots of the operator's configuration lists only`),
		Entry("a directory below a root", roots, "victim", "/srv/backups/other", "", "lists only"),
		Entry("a path that leaves a root", roots, "victim", "/srv/backups/..", "", "not an absolute path in its shortest form"),
		Entry("a path that leaves a root and returns", roots, "victim", "/srv/x/../backups", "", "not an absolute path in its shortest form"),
		Entry("a trailing slash", roots, "victim", "/srv/backups/", "", "not an absolute path in its shortest form"),
		Entry("a relative path", roots, "victim", "srv/backups", "", "not an absolute path in its shortest form"),
		Entry("a line feed at the end", roots, "victim", "/srv/backups\n", "", `names directory "/srv/backups\n"`),
		Entry("a container of two segments", roots, "a/b", "", "", `container "a/b" of the Local store is not the name of a single folder`),
		Entry("a container that leaves the root", roots, "..", "", "", `container ".."`),
		Entry("the root itself", roots, ".", "", "", `container "."`),
		Entry("no container", roots, "", "", "", `container ""`),
	)

	It("should prefer the directory of the store", func() {
		store, err := roots.Locate(backupstore.Store{Provider: "Local", Container: "bucket", HostPath: "/srv/backups"}, "/etc")
		Expect(err).NotTo(HaveOccurred())
		Expect(store.HostPath).To(Equal("/srv/backups"))
		_, err = roots.Locate(backupstore.Store{Provider: "Local", Container: "bucket", HostPath: "/etc"}, "/srv/backups")
		Expect(err).To(MatchError(ContainSubstring(`the Local store is in directory "/etc" on the node, but`)))
	})

	DescribeTable("#Directory", func(provider backupstore.Provider, folder, expected string) {
		Expect(backupstore.Store{Provider: provider, Container: "bucket"}.Directory(folder)).To(Equal(expected))
	},
		Entry("its folder", backupstore.Provider("Local"), "/srv/backups/bucket", "/srv/backups"),
		Entry("another folder", backupstore.Provider("Local"), "/srv/backups/my-bucket", ""),
		Entry("no folder", backupstore.Provider("Local"), "", ""),
		Entry("another provider", backupstore.Provider("S3"), "/srv/backups/bucket", ""),
	)

	DescribeTable("the directory as part of the pinned location", func(pinned, now string, expected bool) {
		Expect(backupstore.IsLocationOf(backupstore.RecordFor(backupstore.Store{Provider: "Local", HostPath: pinned}), backupstore.Store{Provider: "Local", HostPath: now})).To(Equal(expected))
	},
		Entry("the same", "/srv/a", "/srv/a", true),
		Entry("another one", "/srv/a", "/srv/b", false),
		Entry("not recorded", "", "/srv/b", true),
		Entry("not located yet", "/srv/a", "", true),
	)

	It("should return other stores unchanged", func() {
		store := backupstore.Store{Provider: "S3", Container: "bucket"}
		Expect(backupstore.LocalRoots(nil).Locate(store, "/etc")).To(Equal(store))
	})
})
