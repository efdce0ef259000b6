// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/json"
	"slices"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("A store that the operator used before and now refuses", func() {
	const storeAnnotation = "etcd-druid.extensions.gardener.cloud/store"

	var (
		ctx = context.Background()
		k   *kube.Cluster
		o   *operator
	)

	get := func(obj client.Object, name string) {
		GinkgoHelper()
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, obj)).To(Succeed())
	}
	// volumes returns what pods and the StatefulSet mount as a volume, each once.
	volumes := func(name string, source func(corev1.Volume) string) []string {
		var found []string
		specs, pods, statefulSet := []corev1.PodSpec{}, &corev1.PodList{}, &appsv1.StatefulSet{}
		Expect(k.Client(nil).List(ctx, pods)).To(Succeed())
		get(statefulSet, "main")
		for _, pod := range pods.Items {
			specs = append(specs, pod.Spec)
		}
		for _, spec := range append(specs, statefulSet.Spec.Template.Spec) {
			for _, volume := range spec.Volumes {
				if volume.Name == name {
					found = append(found, source(volume))
				}
			}
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	folders := func() []string {
		return volumes("local-backup", func(volume corev1.Volume) string { return volume.HostPath.Path })
	}
	servers := func() []string {
		return volumes("etcd-server-tls", func(volume corev1.Volume) string { return volume.Secret.SecretName })
	}
	condition := func(conditionType string) string {
		for _, condition := range k.EtcdObject().Status.Conditions {
			if string(condition.Type) == conditionType {
				return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
			}
		}
		return ""
	}
	secret := func(hostPath string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "backup"}, Data: map[string][]byte{"hostPath": []byte(hostPath)}}
	}
	withSecret := func(etcd *druidv1alpha1.Etcd) {
		withStore(etcd)
		etcd.Spec.Backup.Store.SecretRef = &corev1.SecretReference{Name: "backup"}
	}
	// start creates an Etcd, and then starts an operator with other roots.
	start := func(replicas int32, before, after backupstore.LocalRoots, option func(*druidv1alpha1.Etcd)) {
		GinkgoHelper()
		k = newCluster()
		must(k.Client(nil).Create(ctx, secret("/srv/backups")))
		create(replicas, option)(k)
		o = startOperator(k, nil)
		o.reconciler.Config.LocalStoreRoots = before
		o.run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
		o = startOperator(k, nil)
		o.reconciler.Config.LocalStoreRoots = after
	}
	// age lets 600 days pass.
	age := func() {
		k.Clock.Step(600 * day)
		o.due = k.Clock.Now()
		o.run()
		Expect(k.Violations).To(BeEmpty())
	}
	// changePin changes what the ManagedResource records about the store.
	changePin := func(mutate func(map[string]string)) {
		GinkgoHelper()
		mr, pin := &resourcesv1alpha1.ManagedResource{}, map[string]string{}
		get(mr, "druid-main")
		must(json.Unmarshal([]byte(mr.Annotations[storeAnnotation]), &pin))
		mutate(pin)
		data, err := json.Marshal(pin)
		must(err)
		mr.Annotations[storeAnnotation] = string(data)
		must(k.Client(nil).Update(ctx, mr))
	}

	srv := backupstore.LocalRoots{"/srv/backups"}

	It("stays in use where the StatefulSet is deleted, which is created again", func() {
		start(1, append(srv, backupstore.DefaultHostPath), nil, withStore)
		o.run()
		must(k.Client(nil).Delete(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main"}}, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		o.due = k.Clock.Now()
		o.run()
		statefulSet := &appsv1.StatefulSet{}
		get(statefulSet, "main")
		Expect(folders()).To(ConsistOf("/etc/gardener/local-backupbuckets/bucket"))
	})

	DescribeTable("stays in use, and certificates are renewed", func(replicas int32, option func(*druidv1alpha1.Etcd), folder, why string, prepare func()) {
		start(replicas, append(srv, backupstore.DefaultHostPath), nil, option)
		made := k.PodsCreated
		prepare()
		o.run()
		Expect(condition("Reconciled")).To(And(HavePrefix("False InvalidSpec"), ContainSubstring(why)))
		Expect(k.PodsCreated).To(Equal(made), "no pod is restarted")

		before := servers()
		age()
		Expect(servers()).To(HaveLen(1))
		Expect(servers()).NotTo(Equal(before))
		Expect(folders()).To(ConsistOf(folder))
		Expect(condition("StoreResolved")).To(And(HavePrefix("False StoreInvalid"), ContainSubstring(why)))
	},
		Entry("where the configuration lists no directory any more", int32(1), withStore, "/etc/gardener/local-backupbuckets/bucket", "lists no directory", func() {}),
		Entry("with three members", int32(3), withStore, "/etc/gardener/local-backupbuckets/bucket", "lists no directory", func() {}),
		Entry("in the directory of its Secret", int32(1), withSecret, "/srv/backups/bucket", "lists no directory", func() {}),
		Entry("though its Secret names another directory by now", int32(1), withSecret, "/srv/backups/bucket", `names directory "/etc"`, func() {
			must(k.Client(nil).Update(ctx, secret("/etc")))
		}),
	)

	It("is not mounted where nothing mounts it yet", func() {
		start(1, srv, nil, withSecret)
		changePin(func(pin map[string]string) { pin["hostPath"] = "/etc" })
		before := servers()
		age()
		Expect(folders()).To(ConsistOf("/srv/backups/bucket"))
		Expect(servers()).To(Equal(before))
		Expect(condition("StoreResolved")).To(HavePrefix("False StoreInvalid"))
	})

	It("is not exchanged for another listed directory", func() {
		start(1, srv, append(srv, "/srv/others"), withSecret)
		must(k.Client(nil).Update(ctx, secret("/srv/others")))
		o.run()
		Expect(condition("StoreResolved")).To(And(HavePrefix("False StoreChanged"), ContainSubstring(`"/srv/backups"`), ContainSubstring(`"/srv/others"`)))
		before := servers()
		age()
		Expect(folders()).To(ConsistOf("/srv/backups/bucket"))
		Expect(servers()).NotTo(Equal(before), "certificates are renewed")

		By("letting a user remove the annotation")
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		delete(mr.Annotations, storeAnnotation)
		must(k.Client(nil).Update(ctx, mr))
		update(func(*druidv1alpha1.Etcd) {})(k)
		o.due = k.Clock.Now()
		o.run()
		Expect(folders()).To(ConsistOf("/srv/others/bucket"), condition("Reconciled"))
		Expect(condition("StoreResolved")).To(HavePrefix("True"))
	})

	It("stays in use, and certificates are renewed, where its endpoint has user info", func() {
		start(3, nil, nil, func(etcd *druidv1alpha1.Etcd) {
			withSecret(etcd)
			etcd.Spec.Backup.Store.Provider, etcd.Spec.Backup.Store.EndpointOverride = new(druidv1alpha1.StorageProvider("aws")), new("https://host")
		})
		endpoint := "https://user:password@host"
		etcd := k.EtcdObject().DeepCopy()
		etcd.Spec.Backup.Store.EndpointOverride = &endpoint
		must(k.Client(nil).Update(ctx, etcd)) // as an API server does whose CustomResourceDefinition has no rule
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		fixture.SetRecord(mr, func(s *state.State) { // as an operator without this rule accepted it
			s.Accepted.Generation, s.Accepted.Spec.Backup.Store.EndpointOverride = k.EtcdObject().Generation, &endpoint
		})
		must(k.Client(nil).Update(ctx, mr))

		o.due = k.Clock.Now()
		o.run()
		Expect(condition("Reconciled")).To(And(HavePrefix("False InvalidSpec"), ContainSubstring("must not have user info")))
		Expect(condition("StoreResolved")).To(And(HavePrefix("False StoreInvalid"), ContainSubstring("must not have user info"), Not(ContainSubstring("password"))))
		before := servers()
		age()
		Expect(servers()).To(HaveLen(1))
		Expect(servers()).NotTo(Equal(before))
	})
})
