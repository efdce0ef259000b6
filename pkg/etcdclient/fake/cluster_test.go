// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
)

var _ = Describe("Cluster", func() {
	var (
		ctx     = context.Background()
		cluster *fake.Cluster
	)

	BeforeEach(func() {
		cluster = fake.NewCluster(7)
		cluster.AddMember(1, "main-0", "a:2379")
		cluster.AddMember(2, "main-1", "b:2379")
		cluster.AddMember(3, "main-2", "c:2379")
	})

	to := func(address string) etcdclient.Client {
		GinkgoHelper()
		client, err := cluster.Connect(ctx, etcdclient.Target{Address: address})
		Expect(err).NotTo(HaveOccurred())

		return client
	}

	It("elects another leader if the leader stops, and no leader without a quorum", func() {
		Expect(cluster.Leader()).To(BeEquivalentTo(1))
		cluster.Stop(1)
		Expect(cluster.Leader()).To(BeEquivalentTo(2))
		Expect(cluster.Write()).To(Succeed())
		cluster.Stop(2)
		Expect(cluster.Leader()).To(BeZero())
		Expect(cluster.Write()).NotTo(Succeed())
		cluster.Start(2)
		Expect(cluster.Write()).To(Succeed())
	})

	It("returns ErrUnreachable for a stopped member", func() {
		cluster.Stop(2)
		_, _, err := to("b:2379").Status(ctx)
		Expect(err).To(MatchError(etcdclient.ErrUnreachable))
	})

	It("moves the leader only if the leader is called and the target is a running voting member", func() {
		Expect(to("b:2379").MoveLeader(ctx, 3)).NotTo(Succeed())
		cluster.SetLearner(3, true)
		Expect(to("a:2379").MoveLeader(ctx, 3)).NotTo(Succeed())
		Expect(to("a:2379").MoveLeader(ctx, 2)).To(Succeed())
		Expect(cluster.Leader()).To(BeEquivalentTo(2))
	})

	It("promotes only running learners", func() {
		Expect(to("a:2379").Promote(ctx, 3)).NotTo(Succeed(), "main-2 is a voting member")
		cluster.SetLearner(3, true)
		Expect(to("a:2379").Promote(ctx, 3)).To(Succeed())
		cluster.Stop(1)
		Expect(cluster.Leader()).NotTo(BeZero())
	})

	It("does not count learners towards the quorum", func() {
		cluster.SetLearner(3, true)
		cluster.Stop(1)
		Expect(cluster.Leader()).To(BeZero())
	})
})
