// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("The use of a store", func() {
	store := func(change func(*state.Store)) state.Store {
		s := state.Store{Provider: "ABS", Container: "c", Prefix: "a/b", Endpoint: "e", Account: "x"}
		change(&s)

		return s
	}
	prefix := func(provider, prefix string) state.Store {
		return state.Store{Provider: provider, Container: "c", Prefix: prefix, Endpoint: "e", HostPath: "/d"}
	}

	DescribeTable("collides with another one", func(a, b state.Store, expected bool) {
		Expect(backupstore.Collide(a, b)).To(Equal(expected))
		Expect(backupstore.Collide(b, a)).To(Equal(expected))
		isFound := slices.ContainsFunc(backupstore.LookupKeys(a), func(key string) bool { return slices.Contains(backupstore.IndexKeys(b), key) })
		if expected {
			Expect(isFound).To(BeTrue(), "by the index")
		}
	},
		Entry("of the same location", store(func(*state.Store) {}), store(func(s *state.Store) { s.SecretName = "other" }), true),
		Entry("not of another provider", store(func(*state.Store) {}), store(func(s *state.Store) { s.Provider = "S3" }), false),
		Entry("not of another container", store(func(*state.Store) {}), store(func(s *state.Store) { s.Container = "d" }), false),
		Entry("not of another prefix", store(func(*state.Store) {}), store(func(s *state.Store) { s.Prefix = "a/c" }), false),
		Entry("not of another endpoint", store(func(*state.Store) {}), store(func(s *state.Store) { s.Endpoint = "f" }), false),
		Entry("not of another account", store(func(*state.Store) {}), store(func(s *state.Store) { s.Account = "y" }), false),
		Entry("not if the endpoint of one is unknown", store(func(*state.Store) {}), store(func(s *state.Store) { s.Endpoint = "" }), false),
		Entry("not if the account of both is unknown", store(func(s *state.Store) { s.Account = "" }), store(func(s *state.Store) { s.Account = "" }), false),
		Entry("of another project of GCS, whose buckets have globally unique names", store(func(s *state.Store) { s.Provider = "GCS" }), store(func(s *state.Store) { s.Provider, s.Account = "GCS", "y" }), true),
		Entry("whose prefix is in its own", prefix("S3", "a/b"), prefix("S3", "a/b/c"), true),
		Entry("whose prefix is far in its own", prefix("S3", "a"), prefix("S3", "a/b/c/d"), true),
		Entry("whose prefix begins with its own", prefix("S3", "a/main"), prefix("S3", "a/main-2"), true),
		Entry("whose prefix begins with its own in another directory", prefix("S3", "a/main"), prefix("S3", "a/main-2/etcd"), true),
		Entry("whose prefix has a slash at its end", prefix("S3", "a/b"), prefix("S3", "a/b/"), true),
		Entry("whose prefix is written in another way", prefix("S3", "a/b"), prefix("S3", "/a//./b"), true),
		Entry("whose prefix is written in another way, in its own", prefix("S3", "a//b"), prefix("S3", "a/./b/c"), true),
		Entry("of the same directory", prefix("Local", "a/b"), prefix("Local", "a/b"), true),
		Entry("of a directory in its own", prefix("Local", "a/b"), prefix("Local", "a/b/c"), true),
		Entry("not of a directory whose name begins with that of its own", prefix("Local", "a/main"), prefix("Local", "a/main-2"), false),
		Entry("not of another directory of the node", prefix("Local", "a"), state.Store{Provider: "Local", Container: "c", Prefix: "a", HostPath: "/e"}, false),
		Entry("not if the directory of one is unknown", prefix("Local", "a"), state.Store{Provider: "Local", Container: "c", Prefix: "a"}, false),
	)

	It("finds no other prefixes of a container by the index", func() {
		Expect(backupstore.LookupKeys(prefix("S3", "shoot-1/etcd-main"))).To(Equal([]string{"below|S3|c|shoot-1", "in|S3|c|"}))
		Expect(backupstore.IndexKeys(prefix("S3", "shoot-2/etcd-main"))).To(Equal([]string{"in|S3|c|shoot-2", "below|S3|c|", "below|S3|c|shoot-2"}))
	})

	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	user := func(name string, change func(*etcdcluster.StoreUser)) etcdcluster.StoreUser {
		u := etcdcluster.StoreUser{Namespace: "a", Name: name, CreationTime: created, Store: prefix("S3", "p")}
		change(&u)

		return u
	}
	none := func(*etcdcluster.StoreUser) {}
	started := func(u *etcdcluster.StoreUser) { u.Started = true }
	owns := func(u *etcdcluster.StoreUser) { u.Started, u.Store.VerifiedAt = true, created.Add(time.Hour) }
	older := func(u *etcdcluster.StoreUser) { u.CreationTime = created.Add(-time.Second) }
	unknown := func(secret string) func(*etcdcluster.StoreUser) {
		return func(u *etcdcluster.StoreUser) {
			u.Store.Endpoint, u.Store.HostPath, u.Store.SecretName = "", "", secret
		}
	}
	endpoint := func(host string) func(*etcdcluster.StoreUser) {
		return func(u *etcdcluster.StoreUser) {
			u.Store.Provider, u.Store.HostPath, u.Store.SecretName, u.Store.Endpoint = "Swift", "", "s", host
		}
	}
	isCopy := func(u *etcdcluster.StoreUser) { u.IsCopy = true }
	foreignCopy := func(u *etcdcluster.StoreUser) { u.Namespace, u.IsCopy = "b", true }

	DescribeTable("by another Etcd prevents the start", func(etcd, other etcdcluster.StoreUser, expected bool) {
		Expect(backupstore.UsedBy(etcd, []etcdcluster.StoreUser{etcd, other}) != nil).To(Equal(expected))
		if !other.IsCopy && !etcd.IsCopy && etcd.Name != other.Name {
			Expect(backupstore.UsedBy(other, []etcdcluster.StoreUser{etcd, other}) != nil).To(Equal(!expected), "exactly one may start")
		}
	},
		Entry("that is older", user("m", none), user("z", older), true),
		Entry("of the same second with a lower name", user("m", none), user("a", none), true),
		Entry("not of the same second with a higher name", user("m", none), user("z", none), false),
		Entry("that has started, also if it is younger", user("m", older), user("z", started), true),
		Entry("that owns the store, also if this one has started", user("m", started), user("z", owns), true),
		Entry("not if this one owns the store", user("m", owns), user("a", started), false),
		Entry("that owns the store and is older, if both do since before", user("m", owns), user("z", func(u *etcdcluster.StoreUser) { owns(u); older(u) }), true),
		Entry("that is being deleted", user("m", none), user("z", func(u *etcdcluster.StoreUser) { owns(u); u.Deleting = true }), true),
		Entry("of the same Secret, if the endpoint of both is unknown", user("m", unknown("s")), user("a", unknown("s")), true),
		Entry("of the same Secret, if the account is not known",
			user("m", endpoint("minio.ns.svc:9000")), user("a", endpoint("minio.ns:9000")), true),
		Entry("of another namespace", user("m", none), user("m2", func(u *etcdcluster.StoreUser) { u.Namespace, u.Started = "b", true }), true),
	)

	DescribeTable("that prevents nothing", func(etcd, other etcdcluster.StoreUser) {
		Expect(backupstore.UsedBy(etcd, []etcdcluster.StoreUser{other})).To(BeNil())
	},
		Entry("by a previous Etcd of the same name", user("m", none), user("m", owns)),
		Entry("of another store", user("m", none), user("a", func(u *etcdcluster.StoreUser) { owns(u); u.Store.Prefix = "q" })),
		Entry("of another Secret, if the endpoint of both is unknown", user("m", unknown("s")), user("a", unknown("t"))),
		Entry("without a Secret, if the endpoint of both is unknown", user("m", unknown("")), user("a", unknown(""))),
		Entry("of the same Secret with another endpoint", user("m", unknown("s")), user("a", func(u *etcdcluster.StoreUser) { u.Store.SecretName = "s" })),
		Entry("at another endpoint with the same Secret", user("m", endpoint("minio.ns.svc:9000")), user("a", endpoint("minio.other.svc:9000"))),
		Entry("of a Secret of the same name in another namespace", user("m", unknown("s")), user("a", func(u *etcdcluster.StoreUser) {
			unknown("s")(u)
			u.Namespace = "A"
		})),
		Entry("by a copy, if the members have started", user("m", started), user("a", isCopy)),
		Entry("by a copy of another namespace without a Job", user("m", none), user("a", foreignCopy)),
		Entry("by an older copy of another namespace without a Job", user("m", none), user("a", func(u *etcdcluster.StoreUser) { foreignCopy(u); older(u) })),
	)

	It("names the Etcd that owns the store, and not another one that waits for it", func() {
		waits, owner := user("a", older), user("z", owns)
		Expect(backupstore.UsedBy(user("m", none), []etcdcluster.StoreUser{waits, owner})).To(HaveValue(HaveField("Name", "z")))
	})

	It("by a copy prevents the start, also by a task of the same name", func() {
		Expect(backupstore.UsedBy(user("m", none), []etcdcluster.StoreUser{user("m", isCopy)})).NotTo(BeNil())
	})

	It("by a copy of another namespace prevents the start while its Job may write, also if it is younger", func() {
		Expect(backupstore.UsedBy(user("m", older), []etcdcluster.StoreUser{user("a", func(u *etcdcluster.StoreUser) { foreignCopy(u); started(u) })})).To(HaveValue(HaveField("Name", "a")))
	})

	DescribeTable("by a copy and an Etcd begins with the one that writes first", func(copyChange, etcdChange func(*etcdcluster.StoreUser), mayEtcdStart, mayCopyStart bool) {
		etcd, task := user("m", etcdChange), user("a", copyChange)
		Expect(backupstore.UsedBy(etcd, []etcdcluster.StoreUser{task}) == nil).To(Equal(mayEtcdStart), "the Etcd")
		Expect(backupstore.UsedByEtcd(task.Namespace, task.Store, []etcdcluster.StoreUser{etcd}) == nil).To(Equal(mayCopyStart), "the copy")
	},
		Entry("if neither writes: in one namespace the Etcd waits", isCopy, none, false, true),
		Entry("if neither writes: in two namespaces the reservation decides", foreignCopy, none, true, true),
		Entry("if the members have started", foreignCopy, started, true, false),
		Entry("if the Job exists", func(u *etcdcluster.StoreUser) { foreignCopy(u); started(u) }, none, false, true),
	)

	DescribeTable("prevents a copy", func(other etcdcluster.StoreUser, expected bool) {
		Expect(backupstore.UsedByEtcd("a", prefix("S3", "p"), []etcdcluster.StoreUser{other}) != nil).To(Equal(expected))
	},
		Entry("by an Etcd that has started", user("m", started), true),
		Entry("not by an Etcd that waits for the copy", user("m", none), false),
		Entry("not by another copy", user("m", isCopy), false),
		Entry("not of another store", user("m", func(u *etcdcluster.StoreUser) { owns(u); u.Store.Prefix = "q" }), false),
	)
})
