// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/landscape"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Three members go on serving", func() {
	It("when peer TLS is switched on", SpecPriority(8), func(ctx SpecContext) {
		story := seed.Begin(ctx, "peer-tls-on")
		clients, peers := landscape.NewAuthority("e2e-clients"), landscape.NewAuthority("e2e-peers")
		certificate := clients.Client("client-client")
		story.Create(ctx,
			clients.Bundle("client-ca"), clients.Server("client-server", landscape.ServerNames("main", story.Namespace)...), certificate,
			peers.Bundle("peer-ca"), peers.Server("peer-server", landscape.PeerNames("main", story.Namespace)...),
		)
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), fixture.WithClientTLS())
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		users := story.UseWith(ctx, etcd, landscape.WithCertificate(clients.Trusting("main-client"), certificate), "peer TLS is switched on")

		timeline := story.Watch(ctx, etcd)
		story.Change(ctx, etcd, fixture.WithPeerTLS())
		story.EventuallyReady(ctx, etcd)
		timeline.End("peer TLS of three members is switched on")
		Expect(peerTLS(ctx, story)).To(HaveEach("true"))
		expectShortGaps(users.End(ctx))
	}, SpecTimeout(storyTimeout))
})

// peerTLS is what the sidecars of three members say about their peer URLs.
func peerTLS(ctx context.Context, story *landscape.Story) []string {
	GinkgoHelper()
	var said []string
	for _, name := range []string{"main-0", "main-1", "main-2"} {
		lease := &coordinationv1.Lease{}
		Expect(story.Client.Get(ctx, client.ObjectKey{Namespace: story.Namespace, Name: name}, lease)).To(Succeed())
		said = append(said, lease.Annotations["member.etcd.gardener.cloud/tls-enabled"])
	}

	return said
}
