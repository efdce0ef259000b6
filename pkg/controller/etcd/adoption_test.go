// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// etcdDruidSecrets are those that the spec refers to, and one to which it does not refer any more.
var etcdDruidSecrets = []string{
	"client-ca", "client-server", "client-client", "peer-ca", "peer-server", "backup-ca", "backup-server", "backup-client", "former",
}

// scaleUpAnnotation is an annotation of earlier versions of etcd-druid. With it, an old sidecar deletes the data of its member if the
// cluster does not respond.
const scaleUpAnnotation = "gardener.cloud/scaled-to-multi-node"

// etcdDruidCluster creates a cluster with TLS and a store as etcd-druid runs it.
func etcdDruidCluster(replicas int32) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		c, ctx := k.Client(nil), context.Background()
		data := fixture.Certificates("main", "demo")
		for _, name := range etcdDruidSecrets {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Finalizers: []string{"druid.gardener.cloud/etcd-druid"}}}
			secret.Data = data
			must(c.Create(ctx, secret))
		}
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace("demo"), fixture.WithReplicas(replicas), fixture.WithTLS(), fixture.WithLocalStore())
		etcd.Finalizers = []string{"druid.gardener.cloud/etcd-druid"}
		etcd.Spec.VolumeClaimTemplate = new("main-etcd") // as gardenlet names it
		must(c.Create(ctx, etcd))
		etcdDruid := fixture.EtcdDruid{
			Etcd: etcd, WrapperImage: "registry.example.com/etcd-wrapper:v0", SidecarImage: "registry.example.com/etcdbrctl:v0", InitImage: "registry.example.com/alpine:v0",
		}
		for _, obj := range etcdDruid.Objects() {
			if set, is := obj.(*appsv1.StatefulSet); is {
				metav1.SetMetaDataAnnotation(&set.ObjectMeta, scaleUpAnnotation, "")
			}
			must(c.Create(ctx, obj))
		}
		etcd.Status = etcdDruid.Status()
		must(c.Status().Update(ctx, etcd))
		for k.Tick() {
			Expect(k.PodsCreated).To(BeNumerically("<=", replicas))
		}
	}
}

var adopt = update(func(*druidv1alpha1.Etcd) {})

var _ = Describe("The adoption of a cluster that etcd-druid runs", func() {
	ctx := context.Background()

	DescribeTable("is one rolling update, and loses no data", func(replicas int) {
		k := kube.New(scheme)
		etcdDruidCluster(int32(replicas))(k)
		Expect(k.EtcdCluster().Members()).To(HaveLen(replicas))
		claims, members := k.Claims(), k.EtcdCluster().Members()

		By("changing nothing before the annotation requests it")
		startOperator(k, nil).run()
		Expect(k.PodsCreated).To(Equal(replicas))
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-main"}, &resourcesv1alpha1.ManagedResource{})).NotTo(Succeed())
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Reason", "OperationAnnotationMissing"))))

		By("replacing each pod once")
		var acts []string
		adopt(k)
		startOperator(k, func(write kube.Write) {
			if strings.Contains(write.What, " Pod ") {
				set := &appsv1.StatefulSet{}
				must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main"}, set))
				Expect(set.Annotations).NotTo(HaveKey(scaleUpAnnotation), "a sidecar starts")
			}
			if write.Done && (strings.Contains(write.What, " Pod ") || strings.Contains(write.What, "Claim") || strings.Contains(write.What, "delete StatefulSet") || strings.HasPrefix(write.What, "move")) {
				acts = append(acts, strings.Fields(write.What)[0])
			}
		}).run()
		succeeded(replicas, 2*replicas)(k)
		if replicas == 1 {
			Expect(acts).To(HaveExactElements("delete"))
		} else {
			Expect(acts).To(HaveExactElements("evict", "evict", "move", "evict"))
		}
		Expect(k.Violations).To(BeEmpty())
		Expect(k.Claims()).To(Equal(claims))
		for i, member := range k.EtcdCluster().Members() {
			Expect(member.ID).To(Equal(members[i].ID), "the same voter as before")
		}

		By("keeping the token of the cluster")
		config := &corev1.ConfigMap{}
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-config"}, config)).To(Succeed())
		Expect(config.Data["etcd.conf.yaml"]).To(ContainSubstring("initial-cluster-token: etcd-cluster\n"))

		By("keeping the finalizers, which protect the Secrets from now on too")
		for _, name := range etcdDruidSecrets {
			Expect(finalizersOf(ctx, k, name)).To(ConsistOf("druid.gardener.cloud/etcd-druid"), name)
		}

		By("removing them with the Etcd")
		deleteEtcd(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).To(BeNil())
		for _, name := range etcdDruidSecrets {
			Expect(finalizersOf(ctx, k, name)).To(BeEmpty(), name)
		}
	},
		Entry("of one member", 1),
		Entry("of three members", 3),
	)

	It("keeps the finalizers for another Etcd that was not adopted yet when the adopted one is deleted", func() {
		k := kube.New(scheme)
		etcdDruidCluster(1)(k)
		other := fixture.Etcd(fixture.WithName("events"), fixture.WithNamespace("demo"), fixture.WithReplicas(0))
		other.Spec.Etcd.ClientUrlTLS = k.EtcdObject().Spec.Etcd.ClientUrlTLS.DeepCopy()
		other.Spec.Etcd.ClientUrlTLS.ServerTLSSecretRef.Name = "former"
		must(k.Client(nil).Create(ctx, other))
		for _, obj := range (fixture.EtcdDruid{Etcd: other}).Objects() {
			if set, is := obj.(*appsv1.StatefulSet); is {
				must(k.Client(nil).Create(ctx, set))
			}
		}
		adopt(k)
		startOperator(k, nil).run()
		deleteEtcd(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).To(BeNil())
		for _, name := range []string{"former", "client-ca", "client-client"} {
			Expect(finalizersOf(ctx, k, name)).To(ConsistOf("druid.gardener.cloud/etcd-druid"), name)
		}
		Expect(finalizersOf(ctx, k, "peer-ca")).To(BeEmpty())
	})

	It("ends with nothing left where it is deleted with its namespace before it was adopted", func() {
		k := kube.New(scheme)
		etcdDruidCluster(3)(k)
		claims := k.Claims()
		namespace := &corev1.Namespace{}
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Name: "demo"}, namespace)).To(Succeed())
		namespace.Finalizers = []string{"kubernetes"}
		must(k.Client(nil).Update(ctx, namespace))
		must(k.Client(nil).Delete(ctx, namespace))
		for _, name := range etcdDruidSecrets {
			must(k.Client(nil).Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}))
		}
		deleteEtcd(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).To(BeNil())
		secrets := &corev1.SecretList{}
		Expect(k.Client(nil).List(ctx, secrets)).To(Succeed())
		Expect(secrets.Items).To(BeEmpty())
		pods := &corev1.PodList{}
		Expect(k.Client(nil).List(ctx, pods)).To(Succeed())
		Expect(pods.Items).To(BeEmpty())
		Expect(k.Claims()).To(Equal(claims), "Retain")
	})
})

func finalizersOf(ctx context.Context, k *kube.Cluster, name string) []string {
	secret := &corev1.Secret{}
	must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, secret))
	return secret.Finalizers
}
