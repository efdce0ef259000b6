// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"crypto/x509"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// otherAuthority is a CA of the user that differs from the one of withUserCertificates.
var otherAuthority = fixture.NewAuthority("other", fixture.Validity{})

// otherSecrets creates Secrets with the CA and certificates of otherAuthority.
func otherSecrets(k *kube.Cluster) {
	always := fixture.Validity{}
	leaf := otherAuthority.Leaf(always, "main-local", "main-client", "*.main-peer.demo.svc")
	for name, data := range map[string]map[string][]byte{
		"other-ca": {"authority.pem": otherAuthority.PEM()}, "other-server": leaf,
		"other-client": otherAuthority.LeafFor([]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, always),
	} {
		must(k.Client(nil).Create(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Data: data}))
	}
}

var otherTLS = druidv1alpha1.TLSConfig{
	TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "other-ca"}, DataKey: new("authority.pem")},
	ServerTLSSecretRef: corev1.SecretReference{Name: "other-server"}, ClientTLSSecretRef: corev1.SecretReference{Name: "other-client"},
}

func useOtherForClients(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.EnableTLS, etcd.Spec.Etcd.ClientUrlTLS, etcd.Spec.Backup.TLS = new(true), otherTLS.DeepCopy(), nil
}

func useOtherForPeers(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.EnableTLS, etcd.Spec.Etcd.PeerUrlTLS = new(true), &druidv1alpha1.PeerTLSConfig{TLSConfig: *otherTLS.DeepCopy()}
}

// useOther changes the CAs for clients and peers to otherAuthority.
func useOther(k *kube.Cluster) {
	otherSecrets(k)
	update(func(etcd *druidv1alpha1.Etcd) { useOtherForClients(etcd); useOtherForPeers(etcd) })(k)
}

func useIssued(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.EnableTLS, etcd.Spec.Etcd.ClientUrlTLS, etcd.Spec.Etcd.PeerUrlTLS, etcd.Spec.Backup.TLS = new(true), nil, nil, nil
}

// serverSecrets are the Secrets with certificates for clients that pods mount.
func serverSecrets(k *kube.Cluster) map[string]bool {
	pods, names := &corev1.PodList{}, map[string]bool{}
	must(k.Client(nil).List(context.Background(), pods))
	for _, pod := range pods.Items {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == "etcd-server-tls" {
				names[volume.Secret.SecretName] = true
			}
		}
	}

	return names
}

var _ = Describe("Another CA that the spec names", func() {
	ctx := context.Background()
	// change changes the Etcd, and expects that etcd accepts writes at each write of the operator. It returns the reports of Reconciled.
	change := func(k *kube.Cluster, mutate func(*druidv1alpha1.Etcd), checks ...func()) []string {
		GinkgoHelper()
		var reports []string
		update(mutate)(k)
		startOperator(k, func(write kube.Write) {
			Expect(k.EtcdCluster().Write()).To(Succeed(), "at %s", write.What)
			for _, check := range checks {
				check()
			}
			for _, condition := range k.EtcdObject().Status.Conditions {
				if condition.Type == "Reconciled" && (len(reports) == 0 || reports[len(reports)-1] != condition.Message) {
					reports = append(reports, condition.Message)
				}
			}
		}).run()
		Expect(k.Violations).To(BeEmpty())

		return reports
	}
	combined := func(k *kube.Cluster) []string {
		GinkgoHelper()
		list, names := &corev1.SecretList{}, []string(nil)
		must(k.Client(nil).List(ctx, list, client.MatchingLabels{"app.kubernetes.io/component": "etcd-ca-bundle"}))
		for _, secret := range list.Items {
			names = append(names, secret.Name)
		}

		return names
	}

	DescribeTable("is rolled out in three stages, with a quorum at any time, and back", func(mutate func(*druidv1alpha1.Etcd), who string) {
		k := newCluster()
		create(3)(k)
		startOperator(k, nil).run()
		succeeded(3, 4)(k)
		otherSecrets(k)
		reports := change(k, mutate)
		succeeded(3, 13)(k)
		all := strings.Join(reports, "\n")
		for _, stage := range []string{
			"stage 1 of 3: members start to trust the new CA in addition to the old one", "stage 2 of 3: members get certificates of the new CA", "stage 3 of 3: members trust only the new CA",
		} {
			Expect(all).To(ContainSubstring("the CA for " + who + " changes, " + stage))
		}
		Expect(combined(k)).To(BeEmpty(), "no pod mounts them any more")

		By("returning to issued certificates")
		isPublished := false
		change(k, useIssued, func() {
			servers := serverSecrets(k)
			if !servers["other-server"] || len(servers) == 1 {
				return
			}
			connection := &corev1.Secret{}
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-connection"}, connection))
			Expect(connection.Data).To(HaveKeyWithValue("ca.crt", ContainSubstring(string(otherAuthority.PEM()))), "clients verify both certificates")
			isPublished = true
		})
		Expect(isPublished).To(Equal(who == "clients"))
		succeeded(3, 22)(k)
		Expect(combined(k)).To(BeEmpty())
	},
		Entry("for peers", useOtherForPeers, "peers"),
		Entry("for clients", useOtherForClients, "clients"),
	)

	It("waits if a Secret that pods mount is gone, until the cluster hibernates", func() {
		k := newCluster()
		withUserCertificates(3)(k)
		startOperator(k, nil).run()
		otherSecrets(k)
		secret := &corev1.Secret{}
		must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: k.EtcdObject().Spec.Etcd.PeerUrlTLS.TLSCASecretRef.Name}, secret))
		secret.Finalizers = nil
		must(k.Client(nil).Update(context.Background(), secret))
		must(k.Client(nil).Delete(context.Background(), secret))
		update(useOtherForPeers)(k)
		o := startOperator(k, nil)
		o.run()
		Expect(conditions.Find(k.EtcdObject().Status.Conditions, "Reconciled").Message).To(ContainSubstring("Secret " + secret.Name + ", which pods mount, does not exist"))

		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })(k)
		o.run()
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })(k)
		o.run()
		Expect(k.EtcdObject().Status.Ready).To(HaveValue(BeTrue()))
	})

	It("restarts a single member once", func() {
		k := newCluster()
		create(1)(k)
		startOperator(k, nil).run()
		otherSecrets(k)
		update(func(etcd *druidv1alpha1.Etcd) { useOtherForClients(etcd); useOtherForPeers(etcd) })(k)
		startOperator(k, nil).run()
		succeeded(1, 2)(k)
		update(useIssued)(k)
		startOperator(k, nil).run()
		succeeded(1, 3)(k)
		Expect(k.Violations).To(BeEmpty())
	})

	It("is rolled out in stages to a single member that a surge replaces", func() {
		k := newCluster()
		create(1, withSurge)(k)
		startOperator(k, nil).run()
		otherSecrets(k)
		change(k, func(etcd *druidv1alpha1.Etcd) { useOtherForClients(etcd); useOtherForPeers(etcd) })
		succeeded(1, 7)(k)
	})

	It("restarts each member once if the bundles verify both", func() {
		k := newCluster()
		withUserCertificates(3)(k)
		startOperator(k, nil).run()
		succeeded(3, 4)(k)
		must(k.Client(nil).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "both"}, Data: withCA("other")}))
		change(k, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.PeerUrlTLS.TLSCASecretRef.Name = "both" })
		succeeded(3, 7)(k)
	})

	It("is withdrawn in the middle", func() {
		k := newCluster()
		withUserCertificates(3)(k)
		startOperator(k, nil).run()
		otherSecrets(k)
		isReturned := false
		update(useOtherForPeers)(k)
		startOperator(k, func(write kube.Write) {
			if created := k.PodsCreated; write.Done && created == 8 && !isReturned {
				isReturned = true
				update(func(etcd *druidv1alpha1.Etcd) {
					fixture.WithPeerTLS()(etcd)
					etcd.Spec.Etcd.PeerUrlTLS.TLSCASecretRef.DataKey = new("ca.crt")
				})(k)
			}
		}).run()
		Expect(isReturned).To(BeTrue())
		Expect(k.Violations).To(BeEmpty())
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
		pods := &corev1.PodList{}
		must(k.Client(nil).List(ctx, pods))
		for _, pod := range pods.Items {
			Expect(pod.Spec.Volumes).To(ContainElement(HaveField("VolumeSource.Secret", HaveValue(HaveField("SecretName", "peer-ca")))))
		}
		Expect(combined(k)).To(BeEmpty())
	})

	It("heals members that an earlier operator has separated", func() {
		k := newCluster()
		withUserCertificates(3)(k)
		startOperator(k, nil).run()
		otherSecrets(k)

		By("replacing the pod of a member by one that trusts only the new CA")
		statefulSet := &appsv1.StatefulSet{}
		must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main"}, statefulSet))
		for i := range statefulSet.Spec.Template.Spec.Volumes {
			switch volume := &statefulSet.Spec.Template.Spec.Volumes[i]; volume.Name {
			case "etcd-peer-ca":
				volume.Secret.SecretName = "other-ca"
			case "etcd-peer-server-tls":
				volume.Secret.SecretName = "other-server"
			}
		}
		must(k.Client(nil).Update(ctx, statefulSet))
		must(k.Client(nil).Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main-2"}}))
		for k.Tick() {
			Expect(k.PodsCreated).To(BeNumerically("<=", 5))
		}
		Expect(k.Violations).NotTo(BeEmpty(), "the members reject each other")
		k.Violations = nil

		update(useOtherForPeers)(k)
		startOperator(k, nil).run()
		succeeded(3, 14)(k)
	})
})
