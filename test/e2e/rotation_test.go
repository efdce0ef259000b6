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

// Every write must succeed within a second. Therefore few members start at once. The operator generates many keys, which takes CPU time from the
// clusters of other tests. The two cases are therefore the last that run in parallel.
var _ = Describe("The CA rotation", quiet, SpecPriority(-1), framework.NeedsSeed("uses the API of Gardener on the seed"), func() {
	DescribeTable("interrupts no writes", func(ctx SpecContext, rotations ...*rotation) {
		ns := seed.NewNamespace(ctx, "rotation")
		ns.ApplyCluster(ctx, "", nil)
		for _, r := range rotations {
			r.ns, r.etcd = ns, &druidv1alpha1.Etcd{}
			r.etcd.Name, r.etcd.Spec.Labels, r.etcd.Spec.Replicas = r.name, map[string]string{"app": r.name}, r.members
			if r.change != nil {
				r.change(r.etcd)
			}
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

		By("preparing the rotation")
		each(func(r *rotation) {
			r.before = r.connection(ctx)
			r.clients = startClients(ctx, ns, r.etcd, r.before, "CA rotation: preparing")
		})
		ns.ApplyCluster(ctx, "Preparing", &initiatedAt)
		each(func(r *rotation) {
			r.eventually(ctx, func(before, now *tls.Config) bool {
				return otherCA(before, now) && string(before.Certificates[0].Certificate[0]) != string(now.Certificates[0].Certificate[0])
			})
		})
		each(func(r *rotation) { ns.EventuallyReady(ctx, r.etcd) })

		By("completing the rotation")
		oldCA := map[string]*tls.Config{}
		each(func(r *rotation) {
			oldCA[r.name], r.before = r.before, r.connection(ctx)
			r.clients.reconnect(r.before, "CA rotation: completing")
		})
		ns.ApplyCluster(ctx, "Completing", &initiatedAt)
		each(func(r *rotation) { r.eventually(ctx, otherCA) })
		each(func(r *rotation) {
			eventuallyRotated(ctx, ns, r.etcd)
			ns.EventuallyReady(ctx, r.etcd)
			r.clients.end(ctx)
		})

		By("connecting with the new CA and with the old CA")
		ns.ApplyCluster(ctx, "Completed", &initiatedAt)
		each(func(r *rotation) {
			writeLog := ns.NewWriteLog(r.etcd)
			writeLog.TLS = r.connection(ctx)
			writeLog.Write(ctx, 10)
			Expect(writeLog.TryWrite(ctx, oldCA[r.name])).NotTo(Succeed(), "etcd no longer trusts the old CA")
		})
	},
		Entry("to three members", gate, &rotation{members: 3, name: "main"}, SpecTimeout(specTimeout)),
		Entry("to a single member that surges replace, and writes to another one only while it restarts", Label("long"),
			&rotation{members: 1, name: "surge", change: withSurge}, &rotation{members: 1, name: "single"}, SpecTimeout(specTimeout)),
	)
})

// rotation is an Etcd whose CAs are rotated, with the clients that use it.
type rotation struct {
	ns      *framework.TestNamespace
	name    string
	members int32
	// change changes the Etcd before its creation. Nil: nothing.
	change func(*druidv1alpha1.Etcd)
	etcd   *druidv1alpha1.Etcd
	// before are the credentials of the connection Secret at the start of the phase.
	before  *tls.Config
	clients clients
}

// connection returns the current credentials of the connection Secret.
func (r *rotation) connection(ctx context.Context) *tls.Config {
	GinkgoHelper()
	config, err := r.ns.Connection(ctx, r.etcd)
	Expect(err).NotTo(HaveOccurred())

	return config
}

// eventually waits until changed returns true for the credentials at the start of the phase and the current ones.
func (r *rotation) eventually(ctx context.Context, changed func(before, now *tls.Config) bool) {
	GinkgoHelper()
	Eventually(func() bool { return changed(r.before, r.connection(ctx)) }).WithContext(ctx).
		WithTimeout(time.Duration(r.members)*framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), r.ns.State)
}

func otherCA(before, now *tls.Config) bool { return !before.RootCAs.Equal(now.RootCAs) }

// eventuallyRotated waits until the rotation has ended. Its last rolling update starts after the connection Secret has
// the final credentials.
func eventuallyRotated(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		mr := &resourcesv1alpha1.ManagedResource{}
		g.Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "druid-" + etcd.Name}, mr)).To(Succeed())
		g.Expect(mr.Annotations["etcd-druid.extensions.gardener.cloud/state"]).NotTo(ContainSubstring(`"stage"`))
	})
}

// clients use an Etcd while its certificates change. They trust only the CAs in their credentials.
type clients struct {
	// reconnect ends the phase and continues with other credentials.
	reconnect func(credentials *tls.Config, phase string)
	// end stops the clients and expects that their writes succeeded.
	end func(context.Context)
}

// startClients starts clients that use the Etcd with these credentials. With multiple members, and with a surge, every
// operation succeeds within a second. Another single member may be unavailable while it restarts.
func startClients(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, credentials *tls.Config, phase string) clients {
	GinkgoHelper()
	if etcd.Spec.Replicas == 1 && etcd.Spec.Etcd.UpdateStrategy == nil {
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

// singleMemberClient is a client of an Etcd with a single member.
type singleMemberClient struct {
	cancel  context.CancelFunc
	done    chan struct{}
	written atomic.Int64
}

// stop stops the client and expects that it has written keys.
func (u *singleMemberClient) stop() {
	GinkgoHelper()
	u.cancel()
	<-u.done
	Expect(u.written.Load()).To(BeNumerically(">", 10))
}

// startSingleMemberClient starts a client that writes keys with these credentials, one after another. The test fails if a write
// does not succeed within a second, unless the member restarts.
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

// writeToSingleMember writes a key to the member. It returns no error while the member restarts.
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
