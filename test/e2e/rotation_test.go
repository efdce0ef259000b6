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
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// Every write has to succeed within a second, so that no other scenario may run at the same time.
var _ = Describe("The CAs are rotated", Serial, func() {
	It("serves clients that trust the old CA, then both, then the new one: three members always, a single one but while it restarts", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "rotation")
		ns.ApplyCluster(ctx, "", nil)
		rotations := []*rotation{{members: 1, name: "single"}, {members: 3, name: "main"}}
		for _, r := range rotations {
			r.ns, r.etcd = ns, &druidv1alpha1.Etcd{}
			r.etcd.Name, r.etcd.Spec.Labels, r.etcd.Spec.Replicas = r.name, map[string]string{"app": r.name}, r.members
			ns.Create(ctx, r.etcd)
		}
		each := func(do func(*rotation)) {
			GinkgoHelper()
			for _, r := range rotations {
				do(r)
			}
		}
		each(func(r *rotation) { ns.EventuallyReady(ctx, r.etcd) })
		initiatedAt := time.Now().Truncate(time.Second)

		By("preparing")
		each(func(r *rotation) {
			r.before = r.connection(ctx)
			r.clients = startClients(ctx, ns, r.etcd, r.before, "the CAs are rotated: preparing")
		})
		ns.ApplyCluster(ctx, "Preparing", &initiatedAt)
		each(func(r *rotation) {
			r.eventually(ctx, func(before, now *tls.Config) bool {
				return otherCA(before, now) && string(before.Certificates[0].Certificate[0]) != string(now.Certificates[0].Certificate[0])
			})
		})
		each(func(r *rotation) { ns.EventuallyReady(ctx, r.etcd) })

		By("completing")
		oldCA := map[string]*tls.Config{}
		each(func(r *rotation) {
			oldCA[r.name], r.before = r.before, r.connection(ctx)
			r.clients.reconnect(r.before, "the CAs are rotated: completing")
		})
		ns.ApplyCluster(ctx, "Completing", &initiatedAt)
		each(func(r *rotation) { r.eventually(ctx, otherCA) })
		each(func(r *rotation) {
			eventuallyRotated(ctx, ns, r.etcd)
			ns.EventuallyReady(ctx, r.etcd)
			r.clients.end(ctx)
		})

		By("trusting the new CA alone")
		ns.ApplyCluster(ctx, "Completed", &initiatedAt)
		each(func(r *rotation) {
			writeLog := ns.NewWriteLog(r.etcd)
			writeLog.TLS = r.connection(ctx)
			writeLog.Write(ctx, 10)
			Expect(writeLog.TryWrite(ctx, oldCA[r.name])).NotTo(Succeed(), "the old CA is trusted no longer")
		})
	}, SpecTimeout(specTimeout+specTimeout/2))
})

// rotation is an Etcd whose CAs are rotated, with the clients that use it.
type rotation struct {
	ns      *framework.TestNamespace
	name    string
	members int32
	etcd    *druidv1alpha1.Etcd
	// before are the credentials that the Secret for applications held when the phase began.
	before  *tls.Config
	clients clients
}

// connection returns the credentials that the Secret for applications holds now.
func (r *rotation) connection(ctx context.Context) *tls.Config {
	GinkgoHelper()
	config, err := r.ns.Connection(ctx, r.etcd)
	Expect(err).NotTo(HaveOccurred())

	return config
}

// eventually waits until the credentials have changed in this way since the phase began.
func (r *rotation) eventually(ctx context.Context, changed func(before, now *tls.Config) bool) {
	GinkgoHelper()
	Eventually(func() bool { return changed(r.before, r.connection(ctx)) }).WithContext(ctx).
		WithTimeout(time.Duration(r.members)*framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), r.ns.State)
}

func otherCA(before, now *tls.Config) bool { return !before.RootCAs.Equal(now.RootCAs) }

// eventuallyRotated waits until the rotation is over. Its last roll begins after applications were told of what it comes to.
func eventuallyRotated(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		mr := &resourcesv1alpha1.ManagedResource{}
		g.Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "druid-" + etcd.Name}, mr)).To(Succeed())
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

// startClients has clients use the Etcd with these credentials. Of several members every operation succeeds within a second; one
// member may be gone while it restarts.
func startClients(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, credentials *tls.Config, phase string) clients {
	GinkgoHelper()
	if etcd.Spec.Replicas == 1 {
		only := startSingleMemberClient(ctx, ns, etcd, credentials)

		return clients{
			reconnect: func(credentials *tls.Config, _ string) {
				GinkgoHelper()
				only.stop()
				only = startSingleMemberClient(ctx, ns, etcd, credentials)
			},
			end: func(context.Context) { GinkgoHelper(); only.stop() },
		}
	}
	workload := ns.StartWorkloadWith(ctx, etcd, credentials, phase)

	return clients{
		reconnect: func(credentials *tls.Config, phase string) {
			GinkgoHelper()
			workload.StartPhase(phase)
			workload.Reconnect(credentials)
		},
		end: func(ctx context.Context) { GinkgoHelper(); expectNoFailures(workload.Stop(ctx)) },
	}
}

// singleMemberClient is a client that uses the only member of an Etcd.
type singleMemberClient struct {
	cancel  context.CancelFunc
	done    chan struct{}
	written atomic.Int64
}

// stop stops the client, which must have been served.
func (u *singleMemberClient) stop() {
	GinkgoHelper()
	u.cancel()
	<-u.done
	Expect(u.written.Load()).To(BeNumerically(">", 10))
}

// startSingleMemberClient writes one key after the other with these credentials, and fails the story when a write fails that was retried for a
// second, unless the only member is being restarted.
func startSingleMemberClient(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, credentials *tls.Config) *singleMemberClient {
	ctx, cancel := context.WithCancel(ctx)
	u := &singleMemberClient{cancel: cancel, done: make(chan struct{})}
	writeLog := ns.NewWriteLog(etcd)
	go func() {
		defer GinkgoRecover()
		defer close(u.done)
		for ctx.Err() == nil {
			if err := writeToSingleMember(ctx, ns, etcd, writeLog, credentials, u); err != nil && ctx.Err() == nil {
				Fail("a write failed: " + err.Error())
			}
		}
	}()

	return u
}

// writeToSingleMember writes to the only member, and returns no error while it is being restarted.
func writeToSingleMember(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, writeLog *framework.WriteLog, credentials *tls.Config, u *singleMemberClient) error {
	before, found := ns.FindPod(ctx, etcd)
	if !found || !framework.IsPodReady(before) {
		return nil
	}
	err := writeLog.TryWriteFor(ctx, before, credentials, time.Second)
	if err == nil {
		u.written.Add(1)

		return nil
	}
	if after, found := ns.FindPod(ctx, etcd); !found || after.UID != before.UID || !framework.IsPodReady(after) {
		return nil
	}

	return err
}
