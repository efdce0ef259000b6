// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/tls"
	"sync/atomic"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/landscape"
)

// Every write has to succeed within a second, so that no other story may run beside these.
var _ = Describe("The CAs are rotated", func() {
	DescribeTable("serves clients that trust the old CA, then both, then the new one", func(ctx SpecContext, members int32) {
		story := seed.Begin(ctx, "rotation")
		story.Cluster(ctx, "", nil)
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Spec.Labels, etcd.Spec.Replicas = "main", map[string]string{"app": "main"}, members
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		initiatedAt := time.Now().Truncate(time.Second)

		connection := func() *tls.Config {
			GinkgoHelper()
			config, err := story.Connection(ctx, etcd)
			Expect(err).NotTo(HaveOccurred())

			return config
		}
		// phase moves the shoot on, and waits until what applications are told changes as often as it should.
		phase := func(name string, changes func(before, now *tls.Config) bool) {
			GinkgoHelper()
			before := connection()
			story.Cluster(ctx, "Preparing", &initiatedAt)
			if name != "Preparing" {
				story.Cluster(ctx, "Completing", &initiatedAt)
			}
			Eventually(func() bool { return changes(before, connection()) }).WithContext(ctx).WithTimeout(time.Duration(members)*landscape.Patience).WithPolling(landscape.Pause).Should(BeTrue(), story.State)
		}
		otherCA := func(before, now *tls.Config) bool { return !before.RootCAs.Equal(now.RootCAs) }
		otherCertificate := func(before, now *tls.Config) bool {
			return otherCA(before, now) && string(before.Certificates[0].Certificate[0]) != string(now.Certificates[0].Certificate[0])
		}

		By("preparing")
		oldCA := connection()
		clients := useAlways(ctx, story, etcd, oldCA, "the CAs are rotated: preparing")
		phase("Preparing", otherCertificate)
		story.EventuallyReady(ctx, etcd)

		By("completing")
		clients.reconnect(connection(), "the CAs are rotated: completing")
		phase("Completing", otherCA)
		eventuallyRotated(ctx, story, etcd)
		story.EventuallyReady(ctx, etcd)
		clients.end(ctx)

		By("trusting the new CA alone")
		story.Cluster(ctx, "Completed", &initiatedAt)
		newCA := connection()
		ledger := story.Ledger(etcd)
		ledger.TLS = newCA
		ledger.Write(ctx, 10)
		Expect(ledger.TryWrite(ctx, oldCA)).NotTo(Succeed(), "the old CA is trusted no longer")
	},
		Entry("of one member, but while it restarts", Serial, SpecTimeout(storyTimeout), int32(1)),
		Entry("of three members, always", Serial, SpecTimeout(storyTimeout), int32(3)),
	)
})

// eventuallyRotated waits until the rotation is over. Its last roll begins after applications were told of what it comes to.
func eventuallyRotated(ctx context.Context, story *landscape.Story, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	story.Eventually(ctx, etcd, func(g Gomega) {
		mr := &resourcesv1alpha1.ManagedResource{}
		g.Expect(story.Client.Get(ctx, client.ObjectKey{Namespace: story.Namespace, Name: "druid-" + etcd.Name}, mr)).To(Succeed())
		g.Expect(mr.Annotations["etcd-druid.extensions.gardener.cloud/ca-rotation"]).NotTo(ContainSubstring(`"stage"`))
	})
}

// clients use an Etcd while its certificates change, and trust what they were told, and no more.
type clients struct {
	// reconnect ends the phase, and goes on with other credentials.
	reconnect func(credentials *tls.Config, phase string)
	// end ends them, and expects that they were served.
	end func(context.Context)
}

// useAlways has clients use the Etcd with these credentials. Of several members every operation succeeds within a second; one
// member may be gone while it restarts.
func useAlways(ctx context.Context, story *landscape.Story, etcd *druidv1alpha1.Etcd, credentials *tls.Config, phase string) clients {
	GinkgoHelper()
	if etcd.Spec.Replicas == 1 {
		only := useOnly(ctx, story, etcd, credentials)

		return clients{
			reconnect: func(credentials *tls.Config, _ string) {
				GinkgoHelper()
				only.stop()
				only = useOnly(ctx, story, etcd, credentials)
			},
			end: func(context.Context) { GinkgoHelper(); only.stop() },
		}
	}
	users := story.UseWith(ctx, etcd, credentials, phase)

	return clients{
		reconnect: func(credentials *tls.Config, phase string) {
			GinkgoHelper()
			users.Begin(phase)
			users.Connect(credentials)
		},
		end: func(ctx context.Context) { GinkgoHelper(); expectNoFailures(users.End(ctx)) },
	}
}

// user is a client that uses the only member of an Etcd.
type user struct {
	cancel  context.CancelFunc
	done    chan struct{}
	written atomic.Int64
}

// stop stops the client, which must have been served.
func (u *user) stop() {
	GinkgoHelper()
	u.cancel()
	<-u.done
	Expect(u.written.Load()).To(BeNumerically(">", 10))
}

// useOnly writes one key after the other with these credentials, and fails the story when a write fails that was retried for a
// second, unless the only member is being restarted.
func useOnly(ctx context.Context, story *landscape.Story, etcd *druidv1alpha1.Etcd, credentials *tls.Config) *user {
	ctx, cancel := context.WithCancel(ctx)
	u := &user{cancel: cancel, done: make(chan struct{})}
	ledger := story.Ledger(etcd)
	go func() {
		defer GinkgoRecover()
		defer close(u.done)
		for ctx.Err() == nil {
			if err := writeToOne(ctx, story, etcd, ledger, credentials, u); err != nil && ctx.Err() == nil {
				Fail("a write failed: " + err.Error())
			}
		}
	}()

	return u
}

// writeToOne writes to the only member, and returns no error while it is being restarted.
func writeToOne(ctx context.Context, story *landscape.Story, etcd *druidv1alpha1.Etcd, ledger *landscape.Ledger, credentials *tls.Config, u *user) error {
	before, found := story.FindPod(ctx, etcd)
	if !found || !landscape.IsPodReady(before) {
		return nil
	}
	err := ledger.TryWriteFor(ctx, before, credentials, time.Second)
	if err == nil {
		u.written.Add(1)

		return nil
	}
	if after, found := story.FindPod(ctx, etcd); !found || after.UID != before.UID || !landscape.IsPodReady(after) {
		return nil
	}

	return err
}
