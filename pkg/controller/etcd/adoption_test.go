// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/world"
)

// predecessorsSecrets are those that the spec refers to, and one to which it does not refer any more.
var predecessorsSecrets = []string{
	"client-ca", "client-server", "client-client", "peer-ca", "peer-server", "backup-ca", "backup-server", "backup-client", "former",
}

// predecessors makes a cluster as etcd-druid runs it, with TLS.
func predecessors(replicas int32) func(*world.World) {
	return func(w *world.World) {
		c, ctx := w.Client(nil), context.Background()
		for _, name := range predecessorsSecrets {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Finalizers: []string{"druid.gardener.cloud/etcd-druid"}}}
			secret.Data = map[string][]byte{"ca.crt": {1}, "tls.crt": {1}, "tls.key": {1}}
			must(c.Create(ctx, secret))
		}
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace("demo"), fixture.WithReplicas(replicas), fixture.WithTLS())
		etcd.Finalizers = []string{"druid.gardener.cloud/etcd-druid"}
		etcd.Spec.VolumeClaimTemplate = new("main-etcd") // as gardenlet names it
		must(c.Create(ctx, etcd))
		predecessor := fixture.Predecessor{Etcd: etcd, WrapperImage: "registry.example.com/etcd-wrapper:v0", SidecarImage: "registry.example.com/etcdbrctl:v0"}
		for _, obj := range predecessor.Objects() {
			must(c.Create(ctx, obj))
		}
		etcd.Status = predecessor.Status()
		must(c.Status().Update(ctx, etcd))
		for w.Tick() {
			Expect(w.PodsMade).To(BeNumerically("<=", replicas))
		}
	}
}

var adopt = update(func(*druidv1alpha1.Etcd) {})

var _ = Describe("The adoption of a cluster that etcd-druid runs", func() {
	ctx := context.Background()

	DescribeTable("takes one orderly roll, and loses nothing", func(replicas int) {
		w := world.New(scheme)
		predecessors(int32(replicas))(w)
		Expect(w.Cluster().Members()).To(HaveLen(replicas))
		claims, members := w.Claims(), w.Cluster().Members()

		By("touching nothing before it is asked to")
		startOperator(w, nil).run()
		Expect(w.PodsMade).To(Equal(replicas))
		Expect(w.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-main"}, &resourcesv1alpha1.ManagedResource{})).NotTo(Succeed())
		Expect(w.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("Progressing")), HaveField("Reason", "OperationAnnotationMissing"))))

		By("replacing each pod once")
		var acts []string
		adopt(w)
		startOperator(w, func(write world.Write) {
			if write.Done && (strings.Contains(write.What, " Pod ") || strings.Contains(write.What, "Claim") || strings.Contains(write.What, "delete StatefulSet") || strings.HasPrefix(write.What, "move")) {
				acts = append(acts, strings.Fields(write.What)[0])
			}
		}).run()
		succeeded(replicas, 2*replicas)(w)
		if replicas == 1 {
			Expect(acts).To(HaveExactElements("delete"))
		} else {
			Expect(acts).To(HaveExactElements("evict", "evict", "move", "evict"))
		}
		Expect(w.Violations).To(BeEmpty())
		Expect(w.Claims()).To(Equal(claims))
		for i, member := range w.Cluster().Members() {
			Expect(member.ID).To(Equal(members[i].ID), "the same voter as before")
		}

		By("keeping the token of the cluster")
		config := &corev1.ConfigMap{}
		Expect(w.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-config"}, config)).To(Succeed())
		Expect(config.Data["etcd.conf.yaml"]).To(ContainSubstring("initial-cluster-token: etcd-cluster\n"))

		By("releasing the Secrets")
		expectReleased(ctx, w)
	},
		Entry("of one member", 1),
		Entry("of three members", 3),
	)

	It("leaves the Secrets alone to which another Etcd refers that was not adopted yet", func() {
		w := world.New(scheme)
		predecessors(1)(w)
		other := fixture.Etcd(fixture.WithName("events"), fixture.WithNamespace("demo"))
		other.Spec.Etcd.ClientUrlTLS = w.EtcdObject().Spec.Etcd.ClientUrlTLS.DeepCopy()
		other.Spec.Etcd.ClientUrlTLS.ServerTLSSecretRef.Name = "former"
		must(w.Client(nil).Create(ctx, other))
		adopt(w)
		startOperator(w, nil).run()
		Expect(finalizersOf(ctx, w, "former")).To(ConsistOf("druid.gardener.cloud/etcd-druid"))
		Expect(finalizersOf(ctx, w, "client-ca")).To(BeEmpty(), "ours too")
	})

	It("ends with nothing left where it is deleted with its namespace before it was adopted", func() {
		w := world.New(scheme)
		predecessors(3)(w)
		claims := w.Claims()
		namespace := &corev1.Namespace{}
		Expect(w.Client(nil).Get(ctx, client.ObjectKey{Name: "demo"}, namespace)).To(Succeed())
		namespace.Finalizers = []string{"kubernetes"}
		must(w.Client(nil).Update(ctx, namespace))
		must(w.Client(nil).Delete(ctx, namespace))
		for _, name := range predecessorsSecrets {
			must(w.Client(nil).Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}))
		}
		deleteEtcd(w)
		startOperator(w, nil).run()
		Expect(w.EtcdObject()).To(BeNil())
		secrets := &corev1.SecretList{}
		Expect(w.Client(nil).List(ctx, secrets)).To(Succeed())
		Expect(secrets.Items).To(BeEmpty())
		pods := &corev1.PodList{}
		Expect(w.Client(nil).List(ctx, pods)).To(Succeed())
		Expect(pods.Items).To(BeEmpty())
		Expect(w.Claims()).To(Equal(claims), "Retain")
	})
})

func finalizersOf(ctx context.Context, w *world.World, name string) []string {
	secret := &corev1.Secret{}
	must(w.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, secret))
	return secret.Finalizers
}

func expectReleased(ctx context.Context, w *world.World) {
	GinkgoHelper()
	for _, name := range predecessorsSecrets {
		Expect(finalizersOf(ctx, w, name)).To(BeEmpty(), name)
	}
}
