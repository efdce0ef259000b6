// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("An operator that is killed at any of its writes", func() {
	var (
		one      = []func(*kube.Cluster){create(1)}
		three    = []func(*kube.Cluster){create(3)}
		rotating = update(func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "start")
		})
		setReplicas = func(replicas int32) func(*kube.Cluster) {
			return update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = replicas })
		}
		isGone = func(k *kube.Cluster) { Expect(k.EtcdObject()).To(BeNil()) }
	)

	DescribeTable("comes to what it would have come to", killedEverywhere,
		Entry("while it creates a cluster of one member, with a store", crashCase{when: create(1, withStore), then: succeeded(1, 1)}),
		Entry("while it creates a cluster of three members", crashCase{when: create(3), then: succeeded(3, 4)}),
		Entry("while it creates a cluster of three members without TLS", crashCase{when: create(3, plaintext), then: succeeded(3, 4)}),
		Entry("while one member with a store becomes three", crashCase{given: []func(*kube.Cluster){create(1, withStore)}, when: setReplicas(3), then: succeeded(3, 4)}),
		Entry("while one member becomes three, and peer TLS is switched on", crashCase{
			given: []func(*kube.Cluster){create(1, plaintext)},
			when: update(func(etcd *druidv1alpha1.Etcd) {
				etcd.Spec.Replicas, etcd.Spec.Etcd.EnableTLS = 3, new(true)
			}),
			then: succeeded(3, 5),
		}),
		Entry("while three members become five", crashCase{given: three, when: setReplicas(5), then: succeeded(5, 6)}),
		Entry("while five members become three", crashCase{given: []func(*kube.Cluster){create(5)}, when: setReplicas(3), then: succeeded(3, 6)}),
		Entry("while three members with a store become one", crashCase{given: []func(*kube.Cluster){create(3, withStore)}, when: setReplicas(1), then: succeeded(1, 4)}),
		Entry("while a surge replaces one member with a store", crashCase{given: []func(*kube.Cluster){create(1, withStore, withSurge)}, when: update(relabel), then: succeeded(1, 3)}),
		Entry("while a surge replaces the volume of one member", crashCase{
			given: []func(*kube.Cluster){create(1, plaintext, withSurge, withExpandableVolumes)}, when: update(withOtherClass), then: hasOtherClass(1, 3),
		}),
		Entry("while a migration replaces the volumes of three members", crashCase{
			given: []func(*kube.Cluster){create(3, plaintext, withExpandableVolumes)}, when: update(withOtherClass), then: hasOtherClass(3, 8),
		}),
		Entry("while it replaces the pods of three members", crashCase{given: three, when: update(relabel), then: succeeded(3, 7)}),
		Entry("while it switches TLS off between three members", crashCase{given: three, when: update(plaintext), then: succeeded(3, 7)}),
		Entry("while it hibernates three members", crashCase{given: three, when: setReplicas(0), then: succeeded(0, 4)}),
		Entry("while it wakes three members", crashCase{given: append(three[:1:1], setReplicas(0)), when: setReplicas(3), then: succeeded(3, 7)}),
		Entry("while it begins to rotate the CAs of three members", crashCase{given: three, when: rotating, then: succeeded(3, 10)}),
		Entry("while it begins to rotate CAs that expire soon", crashCase{given: one, when: eightYearsPass, then: isPrepared}),
		Entry("while it completes the rotation of the CAs of three members", crashCase{given: append(three[:1:1], rotating), when: update(completeRotation), then: succeeded(3, 16)}),
		Entry("while it replaces the volume of a member whose node is gone", crashCase{given: three, when: loseNode, then: hasNewVolume}),
		Entry("while volumes are resized", crashCase{given: []func(*kube.Cluster){create(3, withExpandableVolumes)}, when: update(resizeVolumes), then: succeeded(3, 4)}),
		Entry("while three members come to serve clients at another port", crashCase{given: three, when: update(otherPort), then: succeeded(3, 7)}),
		Entry("while it adopts one member with a store", crashCase{when: func(k *kube.Cluster) { etcdDruidCluster(1)(k); adopt(k) }, then: succeeded(1, 2)}),
		Entry("while it adopts one member with a store through a surge", crashCase{when: func(k *kube.Cluster) { etcdDruidCluster(1)(k); update(withSurge)(k) }, then: succeeded(1, 3)}),
		Entry("while it adopts three members with a store", crashCase{when: func(k *kube.Cluster) { etcdDruidCluster(3)(k); adopt(k) }, then: succeeded(3, 6)}),
		Entry("while one member moves to another store", crashCase{given: []func(*kube.Cluster){create(1, withStore)}, when: moveStore, then: hasMoved(1, 2)}),
		Entry("while three members move to another store", crashCase{given: []func(*kube.Cluster){create(3, withStore)}, when: moveStore, then: hasMoved(3, 7)}),
		Entry("while it upgrades one member to etcd 3.5", crashCase{given: []func(*kube.Cluster){create(1, withStore)}, when: setVersion("3.5"), then: hasVersion("3.5", 1, 2)}),
		Entry("while it upgrades three members to etcd 3.5", crashCase{given: []func(*kube.Cluster){create(3, withStore)}, when: setVersion("3.5"), then: hasVersion("3.5", 3, 7)}),
		Entry("while it downgrades three members to etcd 3.4", crashCase{
			given: []func(*kube.Cluster){create(3, withStore), setVersion("3.5")}, when: setVersion("3.4"), then: hasVersion("3.4", 3, 10),
		}),
		Entry("while it renews the certificates of three members although the newest generation is refused",
			crashCase{given: append(three[:1:1], refuse), when: yearsPass, then: hasNewCertificates}),
		Entry("while the user renews a certificate of three members in place",
			crashCase{given: []func(*kube.Cluster){withUserCertificates(3)}, when: renewInPlace("second"), then: succeeded(3, 7)}),
		Entry("while three members change from issued certificates to those of the user", crashCase{given: three, when: useOther, then: succeeded(3, 13)}),
		Entry("while three members change to another CA of the user", crashCase{given: []func(*kube.Cluster){withUserCertificates(3)}, when: useOther, then: succeeded(3, 13)}),
		Entry("while three members change from certificates of the user to issued ones", crashCase{given: []func(*kube.Cluster){withUserCertificates(3)}, when: update(useIssued), then: succeeded(3, 13)}),
		Entry("while a single member changes to another CA of the user", crashCase{given: []func(*kube.Cluster){withUserCertificates(1)}, when: useOther, then: succeeded(1, 2)}),
		Entry("while it deletes a cluster and keeps its volumes", crashCase{given: three, when: deleteEtcd, then: isGone}),
		Entry("while it deletes a cluster and its volumes", crashCase{given: []func(*kube.Cluster){create(3, deletingAll)}, when: deleteEtcd, then: isGone}),
	)
})

// create creates an Etcd.
func create(replicas int32, options ...func(*druidv1alpha1.Etcd)) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: k.Etcd.Name}}
		etcd.Spec.Replicas, etcd.Spec.Labels = replicas, map[string]string{"role": "main"}
		for _, option := range options {
			option(etcd)
		}
		must(k.Client(nil).Create(context.Background(), etcd))
	}
}

// setVersion requests a minor version of etcd.
func setVersion(version string) func(*kube.Cluster) {
	return update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Version = &version })
}

// hasVersion expects what succeeded expects, and a full snapshot and the images of a minor version of etcd.
func hasVersion(version string, members, podsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		succeeded(members, podsCreated)(k)
		mr := &resourcesv1alpha1.ManagedResource{}
		must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "druid-" + k.Etcd.Name}, mr))
		recorded, err := state.Decode(mr.Annotations)
		Expect(err).NotTo(HaveOccurred())
		Expect(recorded.EtcdVersion).To(Equal(version))
		Expect(recorded.Snapshot.Verified).NotTo(BeNil())
		Expect(recorded.Snapshot.Generation).To(Equal(k.EtcdObject().Generation))
		pods := &corev1.PodList{}
		must(k.Client(nil).List(context.Background(), pods))
		Expect(pods.Items).To(HaveLen(members))
		images := recorded.Accepted.Defaults.ImageSets[version]
		for _, pod := range pods.Items {
			Expect(pod.Spec.Containers).To(ContainElements(HaveField("Image", images.EtcdWrapper), HaveField("Image", images.BackupRestore)))
		}
	}
}

func withSurge(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategySurge)
}

func withOtherClass(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("other") }

// hasOtherClass expects what succeeded expects, and that nothing is left of the volumes with the previous StorageClass.
func hasOtherClass(members, podsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		succeeded(members, podsCreated)(k)
		claims := &corev1.PersistentVolumeClaimList{}
		must(k.Client(nil).List(context.Background(), claims))
		Expect(claims.Items).To(And(HaveLen(members), HaveEach(HaveField("Spec.StorageClassName", HaveValue(Equal("other"))))))
	}
}

func plaintext(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) }

// update changes the Etcd and requests a reconciliation.
func update(mutate func(*druidv1alpha1.Etcd)) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		etcd := k.EtcdObject().DeepCopy()
		mutate(etcd)
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
		must(k.Client(nil).Update(context.Background(), etcd))
	}
}

func deleteEtcd(k *kube.Cluster) {
	must(k.Client(nil).Delete(context.Background(), k.EtcdObject().DeepCopy()))
}

func must(err error) {
	if client.IgnoreNotFound(err) != nil {
		panic(err)
	}
}

// succeeded expects a cluster with the given number of voting members, and an operation that succeeded. It also expects the given
// number of pods to have been created since the cluster began. Each needless replacement of a pod restarts a member.
func succeeded(members, podsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		Expect(k.PodsCreated).To(Equal(podsCreated), "created pods")
		etcd := k.EtcdObject()
		Expect(etcd.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), "%+v", etcd.Status)
		Expect(etcd.Status.ReadyReplicas).To(BeEquivalentTo(members))
		voters := 0
		for _, member := range k.EtcdCluster().Members() {
			if !member.Learner {
				voters++
			}
		}
		if members > 0 {
			Expect(voters).To(Equal(members))
		}
		Expect(k.Unselected()).To(BeEmpty(), "pods that clients do not use")
	}
}

func relabel(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["role"] = "other" }

func completeRotation(etcd *druidv1alpha1.Etcd) {
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "complete")
}

// eightYearsPass ages CAs until they are to be rotated; what is issued from now on is new.
func eightYearsPass(k *kube.Cluster) {
	before := secretsutils.Clock
	DeferCleanup(func() { secretsutils.Clock = before })
	k.Clock.SetTime(before.Now().Add(8*365*24*time.Hour + 24*time.Hour))
	secretsutils.Clock = testclock.NewFakeClock(k.Clock.Now())
}

// isPrepared expects a rotation that began by itself to rest.
func isPrepared(k *kube.Cluster) {
	GinkgoHelper()
	mr := &resourcesv1alpha1.ManagedResource{}
	must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "druid-" + k.Etcd.Name}, mr))
	Expect(fixture.Record(mr).Rotation).To(And(HaveField("Stage", state.StagePrepared), HaveField("Automatic", true)))
}

func otherPort(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.ClientPort = new(int32(12379)) }

func resizeVolumes(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi"))
}

func withExpandableVolumes(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("expandable") }

// refuse requests a change that is refused, together with one that would restart every member.
func refuse(k *kube.Cluster) {
	update(func(etcd *druidv1alpha1.Etcd) {
		relabel(etcd)
		etcd.Spec.Replicas = 4
	})(k)
}

// yearsPass ages certificates until they are to be renewed; what is issued from now on is new.
func yearsPass(k *kube.Cluster) {
	before := secretsutils.Clock
	DeferCleanup(func() { secretsutils.Clock = before })
	k.Clock.SetTime(before.Now().Add(600 * 24 * time.Hour))
	secretsutils.Clock = testclock.NewFakeClock(k.Clock.Now())
}

func hasNewCertificates(k *kube.Cluster) {
	GinkgoHelper()
	Expect(k.PodsCreated).To(Equal(7), "created pods")
	Expect(k.EtcdObject().Status.LastErrors).To(ConsistOf(HaveField("Description", ContainSubstring("spec.replicas"))))
	pods := &corev1.PodList{}
	must(k.Client(nil).List(context.Background(), pods))
	Expect(pods.Items).To(And(HaveLen(3), HaveEach(HaveField("Labels", HaveKeyWithValue("role", "main")))))
	servers := &corev1.SecretList{}
	must(k.Client(nil).List(context.Background(), servers, client.MatchingLabels{"name": "main-server"}))
	Expect(servers.Items).To(ConsistOf(HaveField("Labels", HaveKeyWithValue("issued-at-time", fmt.Sprint(secretsutils.Clock.Now().Add(-time.Minute).Unix())))))
}

func deletingAll(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicyDeleteAll)
}

func withStore(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("bucket"), Prefix: "snapshots"}
}

func loseNode(k *kube.Cluster) { k.RemoveNode("n2") }

func hasNewVolume(k *kube.Cluster) {
	GinkgoHelper()
	succeeded(3, 5)(k)
}

// moveStore requests another store, and removes the record of the one that was used first.
func moveStore(k *kube.Cluster) {
	mr := &resourcesv1alpha1.ManagedResource{}
	must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "druid-" + k.Etcd.Name}, mr))
	delete(mr.Annotations, "etcd-druid.extensions.gardener.cloud/store")
	must(k.Client(nil).Update(context.Background(), mr))
	update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store.Container = new("other") })(k)
}

func hasMoved(members, podsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		succeeded(members, podsCreated)(k)
		for _, name := range []string{"-full-snap", "-delta-snap"} {
			lease := &coordinationv1.Lease{}
			must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: k.Etcd.Name + name}, lease))
			Expect(lease.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", ContainSubstring(`"other"`)))
		}
		tasks := &druidv1alpha1.EtcdOpsTaskList{}
		must(k.Client(nil).List(context.Background(), tasks))
		Expect(tasks.Items).To(ConsistOf(HaveField("Name", k.Etcd.Name+"-store-2")))
	}
}
