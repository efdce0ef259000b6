// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// The report contains the failed writes and the longest gap of each change. With three members, every write must succeed within a second.
var _ = Describe("Another CA that the spec names", quiet, SpecPriority(-1), func() {
	DescribeTable("loses no write, from issued certificates to those of the user, to others, and back", func(ctx SpecContext, replicas int32, kinds ...caKind) {
		ns := seed.NewNamespace(ctx, "ca-change")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(replicas))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		credentials := newChangingCredentials(ctx, ns, etcd)
		workload := ns.StartWorkloadWith(ctx, etcd, credentials.current.Clone(), "no change")
		for _, change := range []struct{ phase, owner string }{
			{"issued certificates to those of the user", "own"},
			{"certificates of the user to others", "other"},
			{"certificates of the user to issued ones", ""},
		} {
			By("changing " + change.phase)
			phase := fmt.Sprintf("CA of %s with %d members: %s", joinKinds(kinds), replicas, change.phase)
			workload.StartPhase(phase)
			timeline, before := ns.StartTimeline(ctx, etcd), podsByName(ctx, ns)
			ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
				etcd.Spec.Etcd.EnableTLS = new(true)
				for _, kind := range kinds {
					kind.reference(etcd, change.owner)
				}
			})
			// When all members trust both CAs, clients trust both too, and present the new certificate.
			reconnect := func() {
				if slices.Contains(kinds, ofClients) {
					workload.Reconnect(credentials.current.Clone())
				}
			}
			var first types.UID
			if replicas == 1 {
				ns.Eventually(ctx, etcd, func(g Gomega) {
					first = podsByName(ctx, ns)["main-0"].UID
					g.Expect(first).NotTo(BeElementOf(before["main-0"].UID, types.UID("")))
					g.Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: credentials.secretName(change.owner)}, &corev1.Secret{})).To(Succeed())
				})
				credentials.trust(ctx, change.owner)
				credentials.present(ctx, change.owner)
				reconnect()
			} else {
				for stage := 1; stage <= 3; stage++ {
					ns.Eventually(ctx, etcd, func(g Gomega) {
						condition := framework.Condition(etcd, "Reconciled")
						g.Expect(condition.Status).To(BeEquivalentTo("False"))
						for _, kind := range kinds {
							g.Expect(condition.Message).To(ContainSubstring(fmt.Sprintf("the CA for %s changes, stage %d of 3", kind, stage)))
						}
					})
					if stage == 2 {
						credentials.trust(ctx, change.owner)
						credentials.present(ctx, change.owner)
						reconnect()
					}
				}
			}
			ns.EventuallyReady(ctx, etcd)
			workload.AwaitWrites(ctx)
			timeline.End(phase)
			for pod, after := range podsByName(ctx, ns) {
				Expect(after.UID).NotTo(Equal(before[pod].UID))
				if replicas == 1 {
					Expect(after.UID).To(Equal(first), "it restarts once")
				}
				Expect(restarts(after)).To(BeZero(), "%s restarts", pod)
				for _, kind := range kinds {
					if change.owner != "" {
						Expect(mountedCA(after, kind)).To(Equal(kind.secret(change.owner, "ca")))
					}
				}
			}
			Eventually(combinedBundles).WithContext(ctx).WithArguments(ns).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeEmpty())
		}
		phases := slices.DeleteFunc(workload.Stop(ctx), func(stats framework.PhaseStats) bool { return stats.Phase == "no change" })
		if replicas > 1 {
			expectNoFailures(phases)
		}
	},
		Entry("for the peers of three members", SpecTimeout(3*specTimeout), int32(3), ofPeers),
		Entry("for the clients of three members", SpecTimeout(3*specTimeout), int32(3), ofClients),
		Entry("for the clients and the peers of one member, which restarts once", SpecTimeout(3*specTimeout), int32(1), ofClients, ofPeers),
	)
})

// caKind is a kind of connection whose CA changes, as messages name it.
type caKind string

const (
	ofClients caKind = "clients"
	ofPeers   caKind = "peers"
)

func joinKinds(kinds []caKind) string {
	texts := make([]string, len(kinds))
	for i, kind := range kinds {
		texts[i] = string(kind)
	}

	return strings.Join(texts, " and ")
}

// secret is the name of a Secret of this kind with the certificates of an owner.
func (k caKind) secret(owner, what string) string { return owner + "-" + string(k) + "-" + what }

// reference references the Secrets of an owner. Empty: the operator issues the certificates.
func (k caKind) reference(etcd *druidv1alpha1.Etcd, owner string) {
	switch {
	case owner == "" && k == ofPeers:
		etcd.Spec.Etcd.PeerUrlTLS = nil
	case owner == "":
		etcd.Spec.Etcd.ClientUrlTLS = nil
	case k == ofPeers:
		fixture.WithPeerTLS()(etcd)
		tls := &etcd.Spec.Etcd.PeerUrlTLS.TLSConfig
		tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name = k.secret(owner, "ca"), k.secret(owner, "server")
	default:
		fixture.WithClientTLS()(etcd)
		tls := etcd.Spec.Etcd.ClientUrlTLS
		tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name = k.secret(owner, "ca"), k.secret(owner, "server"), k.secret(owner, "client")
	}
}

// mountedCA returns the name of the Secret with the CA bundle that a pod mounts.
func mountedCA(pod corev1.Pod, kind caKind) string {
	volume := map[caKind]string{ofClients: "etcd-ca", ofPeers: "etcd-peer-ca"}[kind]
	for _, mounted := range pod.Spec.Volumes {
		if mounted.Name == volume {
			return mounted.Secret.SecretName
		}
	}

	return ""
}

// changingCredentials are the credentials of clients that trust every CA used so far.
type changingCredentials struct {
	ns      *framework.TestNamespace
	etcd    *druidv1alpha1.Etcd
	secrets map[string]*corev1.Secret // by owner: the certificate of clients, and the CA
	current *tls.Config
}

// newChangingCredentials creates the Secrets of two owners, and returns the credentials for issued certificates.
func newChangingCredentials(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) *changingCredentials {
	GinkgoHelper()
	c := &changingCredentials{ns: ns, etcd: etcd, secrets: map[string]*corev1.Secret{}}
	for _, owner := range []string{"own", "other"} {
		authority := framework.NewAuthority("e2e-" + owner)
		certificate := authority.Client(ofClients.secret(owner, "client"))
		ns.Create(ctx, certificate,
			authority.Bundle(ofClients.secret(owner, "ca")), authority.Server(ofClients.secret(owner, "server"), framework.ServerNames("main", ns.Name)...),
			authority.Bundle(ofPeers.secret(owner, "ca")), authority.Server(ofPeers.secret(owner, "server"), framework.PeerNames("main", ns.Name)...),
		)
		c.secrets[owner] = certificate.DeepCopy()
		maps.Copy(c.secrets[owner].Data, authority.Bundle("").Data)
	}
	c.current = &tls.Config{ServerName: "main-client", RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.trust(ctx, "")
	c.present(ctx, "")

	return c
}

// secret returns a Secret with the credentials of an owner. Empty: they are issued.
func (c *changingCredentials) secret(ctx context.Context, owner string) *corev1.Secret {
	GinkgoHelper()
	if owner != "" {
		return c.secrets[owner]
	}
	secret := &corev1.Secret{}
	Expect(c.ns.Client.Get(ctx, client.ObjectKey{Namespace: c.ns.Name, Name: c.secretName("")}, secret)).To(Succeed())

	return secret
}

// secretName is the name of a Secret with a certificate for clients of an owner.
func (c *changingCredentials) secretName(owner string) string {
	if owner == "" {
		return c.etcd.Name + "-connection"
	}

	return ofClients.secret(owner, "client")
}

func (c *changingCredentials) trust(ctx context.Context, owner string) {
	GinkgoHelper()
	roots := c.current.RootCAs.Clone()
	Expect(roots.AppendCertsFromPEM(c.secret(ctx, owner).Data["ca.crt"])).To(BeTrue())
	c.current.RootCAs = roots
}

func (c *changingCredentials) present(ctx context.Context, owner string) {
	GinkgoHelper()
	c.current = framework.WithCertificate(c.current, c.secret(ctx, owner))
}

// combinedBundles returns the names of the Secrets with combined CA bundles.
func combinedBundles(ctx context.Context, ns *framework.TestNamespace) ([]string, error) {
	secrets := &corev1.SecretList{}
	err := ns.Client.List(ctx, secrets, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/component": "etcd-ca-bundle"})
	var names []string
	for _, secret := range secrets.Items {
		names = append(names, secret.Name)
	}

	return names, err
}
