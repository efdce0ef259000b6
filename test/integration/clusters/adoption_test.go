// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/handback"
)

const etcdDruidFinalizer = "druid.gardener.cloud/etcd-druid"

// scaleUpAnnotation is an annotation of earlier versions of etcd-druid. With it, an old sidecar deletes the data of its member if the
// cluster does not respond.
const scaleUpAnnotation = "gardener.cloud/scaled-to-multi-node"

// etcdDruidSecrets are the Secrets that the spec references, and one that the spec no longer references.
var etcdDruidSecrets = []string{
	"client-ca", "client-server", "client-client", "peer-ca", "peer-server", "backup-ca", "backup-server", "backup-client", "former",
}

// unusedSecrets are those of etcdDruidSecrets that no pod of this operator mounts.
var unusedSecrets = []string{"backup-client", "former"}

// createWithEtcdDruid creates a cluster with TLS and the objects of etcd-druid, and waits until all members are ready.
func createWithEtcdDruid(ctx context.Context, namespace string, replicas int32, options ...func(*druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	GinkgoHelper()
	data := fixture.Certificates("main", namespace)
	for _, name := range etcdDruidSecrets {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{etcdDruidFinalizer}}}
		secret.Data = data
		Expect(env.Client.Create(ctx, secret)).To(Succeed())
	}
	etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace(namespace), fixture.WithReplicas(replicas), fixture.WithTLS())
	etcd.UID, etcd.Generation, etcd.Finalizers = "", 0, []string{etcdDruidFinalizer}
	etcd.Spec.VolumeClaimTemplate = new("main-etcd") // the name that gardenlet sets
	for _, option := range options {
		option(etcd)
	}
	Expect(env.Client.Create(ctx, etcd)).To(Succeed())
	druid := etcdDruidOf(etcd)
	for _, obj := range druid.Objects() {
		if set, is := obj.(*appsv1.StatefulSet); is {
			metav1.SetMetaDataAnnotation(&set.ObjectMeta, scaleUpAnnotation, "")
		}
		Expect(env.Client.Create(ctx, obj)).To(Succeed())
	}
	etcd.Status = druid.Status()
	Expect(env.Client.Status().Update(ctx, etcd)).To(Succeed())
	Eventually(func(g Gomega) {
		statefulSet := &appsv1.StatefulSet{}
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
		g.Expect(statefulSet.Status.ReadyReplicas).To(Equal(replicas))
	}).Should(Succeed())
	return etcd
}

func etcdDruidOf(etcd *druidv1alpha1.Etcd) fixture.EtcdDruid {
	return fixture.EtcdDruid{
		Etcd: etcd, WrapperImage: "registry.example.com/etcd-wrapper:v0", SidecarImage: "registry.example.com/etcdbrctl:v0", InitImage: "registry.example.com/alpine:v0",
	}
}

// recordFullSnapshot simulates the sidecar of the leader, which records a full snapshot in the Lease.
func recordFullSnapshot(ctx context.Context, namespace string) {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "main-full-snap"}, lease)).To(Succeed())
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("1"), new(metav1.NowMicro())
	Expect(env.Client.Update(ctx, lease)).To(Succeed())
}

// handBack hands all Etcds back to etcd-druid, and waits for the one in the namespace.
func handBack(ctx context.Context, namespace string, etcds *members) {
	GinkgoHelper()
	garden := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownership.EtcdDruidKey.Namespace}}
	Expect(client.IgnoreAlreadyExists(env.Client.Create(ctx, garden))).To(Succeed())
	etcdDruid := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: ownership.EtcdDruidKey.Namespace, Name: ownership.EtcdDruidKey.Name}}
	etcdDruid.Spec.Class, etcdDruid.Spec.SecretRefs = new("none"), []corev1.LocalObjectReference{{Name: "none"}}
	Expect(env.Client.Create(ctx, etcdDruid)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(env.Client.Delete(ctx, etcdDruid)).To(Succeed()) })

	// The recorder has no channel, since nothing reads events here. A channel would block an attempt after its capacity is reached.
	controller := &ownership.HandBack{
		Client: env.Client, Observer: &observer.Observer{Reader: env.Client, APIReader: env.Client, Etcd: etcds}, Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{},
	}
	Eventually(func() map[string]types.UID {
		_, err := controller.RunOnce(ctx) // fails until the resource manager has released the objects
		AddReportEntry("hand-back", fmt.Sprint(err), ReportEntryVisibilityFailureOrVerbose)

		return identities(ctx, namespace, &resourcesv1alpha1.ManagedResourceList{})
	}).Should(BeEmpty())
}

// identities returns the UIDs of the objects in the namespace by name.
func identities(ctx context.Context, namespace string, list client.ObjectList) map[string]types.UID {
	GinkgoHelper()
	Expect(env.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	uids := map[string]types.UID{}
	Expect(meta.EachListItem(list, func(item runtime.Object) error {
		obj := item.(client.Object)
		uids[obj.GetName()] = obj.GetUID()
		return nil
	})).To(Succeed())
	return uids
}

// countCreatedPods counts the existing pods of a namespace and the pods that are created until the returned function is called.
func countCreatedPods(ctx context.Context, namespace string) func() int {
	GinkgoHelper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	watch, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	created := map[types.UID]bool{}
	var group sync.WaitGroup
	group.Go(func() {
		for event := range watch.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is {
				created[pod.UID] = true
			}
		}
	})
	return func() int {
		watch.Stop()
		group.Wait()
		return len(created)
	}
}

var _ = Describe("The adoption of a cluster that etcd-druid runs", func() {
	DescribeTable("should need one rolling update, keep all persistent objects, and be reversible without a restart", func(ctx SpecContext, replicas int) {
		namespace := env.Namespace(ctx, "adoption")
		createWithEtcdDruid(ctx, namespace, int32(replicas), fixture.WithLocalStore()) // #nosec G115 -- 1 or 3
		pods, claims := identities(ctx, namespace, &corev1.PodList{}), identities(ctx, namespace, &corev1.PersistentVolumeClaimList{})
		statefulSets, services := identities(ctx, namespace, &appsv1.StatefulSetList{}), identities(ctx, namespace, &corev1.ServiceList{})
		leases := identities(ctx, namespace, &coordinationv1.LeaseList{})
		Expect(pods).To(HaveLen(replicas))
		created := countCreatedPods(ctx, namespace)

		etcds := &members{namespace: namespace}
		stop := (&process{}).start(namespace, etcds)
		DeferCleanup(stop)
		etcd := &druidv1alpha1.Etcd{}
		key := client.ObjectKey{Namespace: namespace, Name: "main"}

		By("changing nothing before its reconciliation is requested")
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, key, etcd)).To(Succeed())
			g.Expect(etcd.Status.Conditions).To(ContainElement(HaveField("Reason", "OperationAnnotationMissing")))
		}).Should(Succeed())
		Consistently(func() map[string]types.UID {
			return identities(ctx, namespace, &resourcesv1alpha1.ManagedResourceList{})
		}).
			WithTimeout(time.Second).Should(BeEmpty())

		By("adopting it")
		update(func(*druidv1alpha1.Etcd) {})(ctx, namespace)
		if replicas == 1 {
			By("waiting for the first snapshot, because the member does not start again without the store")
			Eventually(func(g Gomega) {
				g.Expect(env.Client.Get(ctx, key, etcd)).To(Succeed())
				g.Expect(etcd.Status.Conditions).To(ContainElement(And(HaveField("Reason", "Waiting"), HaveField("Message", ContainSubstring("a new snapshot in the store")))))
			}).Should(Succeed())
			Consistently(func() map[string]types.UID { return identities(ctx, namespace, &corev1.PodList{}) }).WithTimeout(time.Second).Should(Equal(pods))
			recordFullSnapshot(ctx, namespace)
		}
		Eventually(isReconciled).WithArguments(ctx, namespace).Should(BeTrue())

		Expect(created()).To(Equal(2*replicas), "each pod is replaced once")
		for name, uid := range identities(ctx, namespace, &corev1.PodList{}) {
			Expect(uid).NotTo(Equal(pods[name]), name)
		}
		Expect(identities(ctx, namespace, &corev1.PersistentVolumeClaimList{})).To(Equal(claims))
		Expect(identities(ctx, namespace, &appsv1.StatefulSetList{})).To(Equal(statefulSets))
		Expect(identities(ctx, namespace, &corev1.ServiceList{})).To(Equal(services))
		Expect(identities(ctx, namespace, &coordinationv1.LeaseList{})).To(Equal(leases))
		statefulSet := &appsv1.StatefulSet{}
		Expect(env.Client.Get(ctx, key, statefulSet)).To(Succeed())
		Expect(statefulSet.Annotations).NotTo(HaveKey(scaleUpAnnotation))
		config := &corev1.ConfigMap{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "main-config"}, config)).To(Succeed())
		Expect(config.Data["etcd.conf.yaml"]).To(ContainSubstring("initial-cluster-token: etcd-cluster\n"))
		for _, name := range etcdDruidSecrets {
			secret := &corev1.Secret{}
			Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
			if !slices.Contains(unusedSecrets, name) {
				Expect(secret.Finalizers).To(ConsistOf(etcdDruidFinalizer), "%s is used", name)
			}
		}
		Eventually(func(g Gomega) {
			for _, name := range unusedSecrets {
				secret := &corev1.Secret{}
				g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
				g.Expect(secret.Finalizers).To(BeEmpty(), "nothing uses it")
			}
		}).Should(Succeed())

		By("handing it back")
		stop()
		Expect(env.Client.Get(ctx, key, etcd)).To(Succeed())
		adopted, running := etcd.DeepCopy(), identities(ctx, namespace, &corev1.PodList{})
		handBack(ctx, namespace, etcds)
		Expect(env.Client.Get(ctx, key, etcd)).To(Succeed())
		Expect(etcd.Spec).To(Equal(adopted.Spec))
		Expect(handback.Check(ctx, env.Client, etcdDruidOf(etcd))).To(Succeed())
		Expect(identities(ctx, namespace, &corev1.PodList{})).To(Equal(running))
		Expect(identities(ctx, namespace, &appsv1.StatefulSetList{})).To(Equal(statefulSets))
		Expect(identities(ctx, namespace, &coordinationv1.LeaseList{})).To(Equal(leases))
	},
		Entry("of one member", 1),
		Entry("of three members", 3),
	)

	It("should also be possible for etcd-druid if this operator created the cluster", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "handback")
		etcds := &members{namespace: namespace}
		stop := (&process{}).start(namespace, etcds)
		DeferCleanup(stop)
		create(3)(ctx, namespace)
		Eventually(isReconciled).WithArguments(ctx, namespace).Should(BeTrue())
		stop()
		pods, claims := identities(ctx, namespace, &corev1.PodList{}), identities(ctx, namespace, &corev1.PersistentVolumeClaimList{})

		handBack(ctx, namespace, etcds)
		etcd := &druidv1alpha1.Etcd{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "main"}, etcd)).To(Succeed())
		Expect(handback.Check(ctx, env.Client, etcdDruidOf(etcd))).To(Succeed())
		Eventually(func(g Gomega) {
			statefulSet := &appsv1.StatefulSet{}
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
			g.Expect(statefulSet.Status.ReadyReplicas).To(BeEquivalentTo(3), "the StatefulSet has adopted the pods")
		}).Should(Succeed())
		Expect(identities(ctx, namespace, &corev1.PodList{})).To(Equal(pods))
		Expect(identities(ctx, namespace, &corev1.PersistentVolumeClaimList{})).To(Equal(claims))
	})

	DescribeTable("should not block the deletion of a namespace", func(ctx SpecContext, isAdopted bool) {
		namespace := env.Namespace(ctx, "adoption")
		etcd := createWithEtcdDruid(ctx, namespace, 1)
		DeferCleanup((&process{}).start(namespace, &members{namespace: namespace}))
		if isAdopted {
			update(func(*druidv1alpha1.Etcd) {})(ctx, namespace)
			Eventually(isReconciled).WithArguments(ctx, namespace).Should(BeTrue())
		}

		By("deleting the objects of the namespace like the namespace controller")
		Expect(env.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		Expect(env.Client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(namespace))).To(Succeed())
		Expect(env.Client.Delete(ctx, etcd)).To(Succeed())
		for _, list := range []client.ObjectList{
			&druidv1alpha1.EtcdList{}, &resourcesv1alpha1.ManagedResourceList{}, &appsv1.StatefulSetList{}, &corev1.PodList{},
			&coordinationv1.LeaseList{}, &corev1.ServiceList{}, &corev1.SecretList{},
		} {
			Eventually(func() map[string]types.UID { return identities(ctx, namespace, list) }).Should(BeEmpty(), "%T", list)
		}
	},
		Entry("before its adoption", false),
		Entry("after its adoption", true),
	)
})
