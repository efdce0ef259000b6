// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// entryObserver adds a BackupEntry, and the Secrets made for it, to each observation.
type entryObserver struct {
	etcd.Observer
	entry   etcdcluster.BackupEntry
	secrets []string
}

func (o *entryObserver) Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation {
	observation := o.Observer.Observe(ctx, etcd, request)
	observation.Gardener.BackupEntries = []etcdcluster.BackupEntry{o.entry}
	for _, name := range o.secrets {
		observation.Gardener.StoreSecrets = append(observation.Gardener.StoreSecrets, etcdcluster.StoreSecret{Name: name, CreatedBy: o.entry.Name})
	}

	return observation
}

// removingClient lets a user remove the annotation of the store just before a ManagedResource is patched: the caches did not know.
type removingClient struct {
	client.Client
	remove func()
}

func (c *removingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if _, is := obj.(*resourcesv1alpha1.ManagedResource); is && c.remove != nil {
		remove := c.remove
		c.remove = nil
		remove()
	}
	return c.Client.Patch(ctx, obj, patch, opts...)
}

// publish names a Secret in the status of the entry.
func (o *entryObserver) publish(name string) {
	o.entry.PublishedSecret = &corev1.SecretReference{Namespace: "demo", Name: name}
}

var _ = Describe("The store of a cluster whose newest generation is refused", func() {
	var (
		ctx      = context.Background()
		k        *kube.Cluster
		drive    *operator
		observed *entryObserver
	)

	const entryName = "demo--11111111-2222-3333-4444-555555555555"

	get := func(obj client.Object, name string) {
		GinkgoHelper()
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, obj)).To(Succeed())
	}
	pin := func() string {
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		return mr.Annotations["etcd-druid.extensions.gardener.cloud/store"]
	}
	condition := func(conditionType string) string {
		for _, condition := range k.EtcdObject().Status.Conditions {
			if string(condition.Type) == conditionType {
				return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
			}
		}
		return ""
	}
	servers := func() []string {
		var names []string
		list := &corev1.SecretList{}
		Expect(k.Client(nil).List(ctx, list, client.MatchingLabels{"name": "main-server"})).To(Succeed())
		for _, secret := range list.Items {
			names = append(names, secret.Name)
		}
		return names
	}
	// mounts are the Secrets that the pods of members mount.
	mounts := func() []string {
		var names []string
		pods := &corev1.PodList{}
		Expect(k.Client(nil).List(ctx, pods)).To(Succeed())
		for _, pod := range pods.Items {
			for _, volume := range pod.Spec.Volumes {
				if volume.Secret != nil {
					names = append(names, volume.Secret.SecretName)
				}
			}
		}
		return names
	}

	BeforeEach(func() {
		k = kube.New(scheme)
		before := secretsutils.Clock
		secretsutils.Clock = k.Clock
		DeferCleanup(func() { secretsutils.Clock = before })
		for _, name := range []string{"credentials-1", "credentials-2"} {
			must(k.Client(nil).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}))
		}
		create(1, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{BackupEntryRef: &druidv1alpha1.BackupEntryReference{Name: entryName}}
		})(k)
		drive = startOperator(k, nil)
		observed = &entryObserver{Observer: drive.reconciler.Observer, secrets: []string{"credentials-1", "credentials-2"}, entry: etcdcluster.BackupEntry{
			Name: entryName, Namespace: "demo", Type: "aws", BucketName: "bucket", GenerationObserved: true, State: "Succeeded",
		}}
		observed.publish("credentials-1")
		drive.reconciler.Observer = observed
		drive.run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), condition("Reconciled"))
		Expect(pin()).To(ContainSubstring(`"secretName":"credentials-1"`))
		Expect(mounts()).To(ContainElement("credentials-1"))

		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 4 })(k)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(condition("Reconciled")).To(ContainSubstring("InvalidSpec: spec.replicas"))
	})

	// passes lets the operator reconcile a few times, and returns how often it was requeued within a second.
	passes := func() int {
		soon := 0
		drive.due = k.Clock.Now()
		for range 20 {
			drive.reconcileOnce()
			k.Tick()
			if !drive.due.IsZero() && drive.due.Before(k.Clock.Now()) {
				soon++
			}
		}
		return soon
	}

	It("is used with the Secret that the BackupEntry publishes from now on, and certificates are renewed", func() {
		observed.publish("credentials-2")
		Expect(passes()).To(BeNumerically("<", 10), "reconciliations that end in a conflict")
		drive.run()
		Expect(pin()).To(ContainSubstring(`"secretName":"credentials-2"`))
		Expect(mounts()).To(ContainElement("credentials-2"))
		Expect(condition("Reconciled")).To(ContainSubstring("InvalidSpec: spec.replicas"), "the status still says why the newest generation is refused")
		Expect(condition("StoreResolved")).To(And(HavePrefix("True"), ContainSubstring("credentials-2")))

		before := servers()
		k.Clock.Step(600 * day)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(servers()).To(HaveLen(1))
		Expect(servers()).NotTo(Equal(before))
		Expect(mounts()).To(ContainElement(servers()[0]))
	})

	It("stays the one that is used, and is reported, if the BackupEntry names another location", func() {
		observed.entry.BucketName = "elsewhere"
		observed.publish("credentials-2")
		Expect(passes()).To(BeNumerically("<", 10), "reconciliations that end in a conflict")
		drive.run()
		Expect(pin()).To(And(ContainSubstring(`"container":"bucket"`), ContainSubstring(`"secretName":"credentials-1"`)))
		Expect(mounts()).To(ContainElement("credentials-1"))
		Expect(condition("StoreResolved")).To(And(HavePrefix("False StoreChanged"), ContainSubstring(`container "elsewhere"`)))

		before := servers()
		k.Clock.Step(600 * day)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(servers()).NotTo(Equal(before), "certificates are renewed")
		Expect(mounts()).To(ContainElement(servers()[0]))
	})

	It("is not forced back by a Secret that changes while a user removes the annotation", func() {
		observed.publish("credentials-2")
		drive.reconciler.Client = &removingClient{Client: drive.reconciler.Client, remove: func() { moveStore(k) }}
		drive.reconcileOnce()
		Expect(pin()).To(BeEmpty())
		Expect(drive.due).To(BeTemporally("<=", k.Clock.Now().Add(time.Second)), "it reconciles again")
		Expect(mounts()).To(ContainElement("credentials-1"))
	})

	It("is used with the other Secret also where the newest generation is rolled out", func() {
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })(k)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(condition("Reconciled")).To(ContainSubstring("Reconciled"))
		observed.publish("credentials-2")
		drive.due = k.Clock.Now()
		drive.run()
		Expect(pin()).To(ContainSubstring(`"secretName":"credentials-2"`))
		Expect(mounts()).To(ContainElement("credentials-2"))
		Expect(condition("Reconciled")).To(ContainSubstring("Reconciled"))
	})
})
