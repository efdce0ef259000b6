// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
)

var _ = Describe("Names", func() {
	It("puts the name of the Etcd into the identity", func() {
		Expect(secrets.Identity("main")).To(Equal("etcd-druid-main"))
	})

	It("hashes names that do not fit into a label, and keeps them apart", func() {
		long := strings.Repeat("a", 60)
		Expect(secrets.Identity(long + "x")).To(HaveLen(63))
		Expect(secrets.Identity(long + "x")).NotTo(Equal(secrets.Identity(long + "y")))
		Expect(secrets.Identity(long + "x")).To(HavePrefix("etcd-druid-aaaa"))
	})

	It("leaves room for the suffix that the secrets manager appends to the name of a CA", func() {
		long := strings.Repeat("a", 60)
		names := secrets.ConfigNamesFor(long + "x")
		for _, name := range []string{names.ClientCA + "-bundle", names.PeerCA + "-bundle", names.Server, names.Client, names.Application, names.Peer} {
			Expect(len(name)).To(BeNumerically("<=", 63))
		}
		Expect(names.ClientCA).NotTo(Equal(secrets.ConfigNamesFor(long + "y").ClientCA))
	})

	It("gives different Etcds different config names", func() {
		all := map[string]string{}
		for _, etcd := range []string{"a", "a-peer", "a-client", "a-server", "a-peer-ca", "a-client-ca", "a-ca"} {
			names := secrets.ConfigNamesFor(etcd)
			for _, name := range []string{names.ClientCA, names.PeerCA, names.Server, names.Client, names.Application, names.Peer} {
				Expect(all).NotTo(HaveKey(name), "of Etcd %s and of Etcd %s", etcd, all[name])
				all[name] = etcd
			}
		}
	})
})
