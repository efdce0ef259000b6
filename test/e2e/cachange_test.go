// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// Every write must succeed within a second. The report contains the longest gap of each change.
var _ = Describe("Another CA for peers that the spec names", quiet, SpecPriority(-1), func() {
	It("interrupts no writes to three members, from issued certificates to those of the user, to others, and back", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "ca-change")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		for _, name := range []string{"own", "other"} {
			authority := framework.NewAuthority("e2e-" + name)
			ns.Create(ctx, authority.Bundle(name+"-ca"), authority.Server(name+"-server", framework.PeerNames("main", ns.Name)...))
		}
		name := func(owner string) func(*druidv1alpha1.Etcd) {
			return func(etcd *druidv1alpha1.Etcd) {
				fixture.WithPeerTLS()(etcd)
				tls := &etcd.Spec.Etcd.PeerUrlTLS.TLSConfig
				tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name = owner+"-ca", owner+"-server", owner+"-server"
				etcd.Spec.Etcd.EnableTLS = new(true)
			}
		}
		workload := ns.StartWorkload(ctx, etcd, "no change")
		for _, change := range []struct {
			phase, ca string
			do        func(*druidv1alpha1.Etcd)
		}{
			{"issued certificates to those of the user", "own-ca", name("own")},
			{"certificates of the user to others", "other-ca", name("other")},
			{"certificates of the user to issued ones", "", func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.PeerUrlTLS = nil }},
		} {
			By("changing " + change.phase)
			workload.StartPhase("CA of peers: " + change.phase)
			timeline, before := ns.StartTimeline(ctx, etcd), podsByName(ctx, ns)
			ns.Patch(ctx, etcd, change.do)
			for stage := 1; stage <= 3; stage++ {
				ns.Eventually(ctx, etcd, func(g Gomega) {
					condition := framework.Condition(etcd, "Reconciled")
					g.Expect(condition.Status).To(BeEquivalentTo("False"))
					g.Expect(condition.Message).To(ContainSubstring(fmt.Sprintf("the CA for peers changes, stage %d of 3", stage)))
				})
			}
			ns.EventuallyReady(ctx, etcd)
			timeline.End("three members: " + change.phase)
			for pod, after := range podsByName(ctx, ns) {
				Expect(after.UID).NotTo(Equal(before[pod].UID))
				if change.ca != "" {
					Expect(peerCA(after)).To(Equal(change.ca))
				}
				Expect(restarts(after)).To(BeZero(), "%s restarts", pod)
			}
			Eventually(combinedBundles).WithContext(ctx).WithArguments(ns).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeEmpty())
		}
		expectNoFailures(slices.DeleteFunc(workload.Stop(ctx), func(stats framework.PhaseStats) bool { return stats.Phase == "no change" }))
	}, SpecTimeout(3*specTimeout))
})

// peerCA returns the name of the Secret with the CA bundle for peers that a pod mounts.
func peerCA(pod corev1.Pod) string {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "etcd-peer-ca" {
			return volume.Secret.SecretName
		}
	}

	return ""
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
