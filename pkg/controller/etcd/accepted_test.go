// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

const day = 24 * time.Hour

var _ = Describe("A generation that is not rolled out", func() {
	var (
		ctx   = context.Background()
		k     *kube.Cluster
		drive *operator
		acts  []string
	)

	get := func(obj client.Object, name string) {
		GinkgoHelper()
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, obj)).To(Succeed())
	}
	pods := func() []corev1.Pod {
		GinkgoHelper()
		list := &corev1.PodList{}
		Expect(k.Client(nil).List(ctx, list)).To(Succeed())
		return list.Items
	}
	uids := func() []types.UID {
		var all []types.UID
		for _, pod := range pods() {
			all = append(all, pod.UID)
		}
		return all
	}
	// mounted are the Secrets that pods mount for a purpose, each once.
	mounted := func(volume string) []string {
		var names []string
		for _, pod := range pods() {
			for _, v := range pod.Spec.Volumes {
				if v.Name == volume {
					names = append(names, v.Secret.SecretName)
				}
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	issued := func(config string) []string {
		var names []string
		list := &corev1.SecretList{}
		Expect(k.Client(nil).List(ctx, list, client.MatchingLabels{"name": config})).To(Succeed())
		for _, secret := range list.Items {
			names = append(names, secret.Name)
		}
		return names
	}
	connection := func() map[string][]byte {
		secret := &corev1.Secret{}
		get(secret, "main-connection")
		return secret.Data
	}
	recorded := func(key string) string {
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		if key == "store" {
			return mr.Annotations[druidv1alpha1.ManagedResourceAnnotationStore]
		}
		return recordedAs(mr, key)
	}
	progress := func() string {
		for _, condition := range k.EtcdObject().Status.Conditions {
			if condition.Type == "Reconciled" {
				return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
			}
		}
		return ""
	}
	// change changes the spec, and requests a reconciliation unless the mutation removes the annotation.
	change := func(mutate func(*druidv1alpha1.Etcd)) {
		etcd := k.EtcdObject().DeepCopy()
		etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
		mutate(etcd)
		must(k.Client(nil).Update(ctx, etcd))
	}
	withoutRequest := func(etcd *druidv1alpha1.Etcd) { etcd.Annotations = nil }
	later := func(after time.Duration) {
		GinkgoHelper()
		Expect(drive.due).To(BeTemporally("<=", k.Clock.Now().Add(after)), "the operator is requeued by then")
		k.Clock.Step(after)
		drive.run()
		Expect(k.Violations).To(BeEmpty())
	}
	start := func(replicas int32, options ...func(*druidv1alpha1.Etcd)) {
		GinkgoHelper()
		k, acts = reconciledCluster(replicas, options...), nil
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && (strings.HasPrefix(write.What, "evict ") || strings.HasPrefix(write.What, "delete Pod") || strings.HasPrefix(write.What, "move ")) {
				acts = append(acts, write.What)
			}
		})
	}

	DescribeTable("leaves the cluster with what it has, which is renewed in time, where",
		func(change_ func(*druidv1alpha1.Etcd), why string) {
			start(3, withStore)
			before := uids()
			change(func(etcd *druidv1alpha1.Etcd) {
				relabel(etcd)
				change_(etcd)
			})
			drive.run()
			Expect(progress()).To(ContainSubstring(why))
			Expect(uids()).To(Equal(before))

			server, application := mounted("etcd-server-tls"), connection()
			Expect(server).To(HaveLen(1))
			later(600 * day)
			Expect(acts).To(HaveLen(4), "each member is replaced once, and the leader transfers its leadership: %v", acts)
			Expect(mounted("etcd-server-tls")).To(HaveLen(1))
			Expect(mounted("etcd-server-tls")).NotTo(Equal(server))
			Expect(issued("main-server")).To(Equal(mounted("etcd-server-tls")), "the old one is gone")
			Expect(connection()["tls.crt"]).NotTo(Equal(application["tls.crt"]))
			Expect(connection()["ca.crt"]).To(Equal(application["ca.crt"]))
			Expect(pods()).To(HaveEach(HaveField("Labels", HaveKeyWithValue("role", "main"))), "nothing else has changed")
			Expect(k.EtcdCluster().Members()).To(And(HaveLen(3), HaveEach(HaveField("Learner", false))))
			Expect(recorded("accepted")).To(ContainSubstring(`"generation":1`))
			Expect(progress()).To(ContainSubstring(why), "the reason is still reported")
			Expect(drive.due.Sub(k.Clock.Now())).To(BeNumerically("<", 600*day), "and the next time as well")

			By("carrying the generation out when it can be")
			etcd := k.EtcdObject().DeepCopy()
			etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
			etcd.Spec = druidv1alpha1.EtcdSpec{Replicas: 3, Labels: map[string]string{"role": "other"}}
			withStore(etcd)
			must(k.Client(nil).Update(ctx, etcd))
			drive.due = k.Clock.Now()
			drive.run()
			Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), progress())
			Expect(pods()).To(HaveEach(HaveField("Labels", HaveKeyWithValue("role", "other"))))
		},
		Entry("no annotation requests it", withoutRequest, "OperationAnnotationMissing: Generation 2"),
		Entry("validation refuses it", func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 4 }, "InvalidSpec: spec.replicas"),
		Entry("the planner refuses it", func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageCapacity = new(resource.MustParse("1Gi")) }, "InvalidSpec: spec.storageCapacity"),
		Entry("it contradicts itself", func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.ImageVersion = new("v2")
		}, "InvalidSpec: spec.etcd.imageRepository"),
		Entry("its Secrets do not exist", func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
				TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "missing-ca"}},
				ServerTLSSecretRef: corev1.SecretReference{Name: "missing-server"},
				ClientTLSSecretRef: corev1.SecretReference{Name: "missing-client"},
			}
		}, "missing-ca"),
		Entry("its store is not known", func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "x", BackupEntryRef: &druidv1alpha1.BackupEntryReference{Name: "missing-entry"}}
		}, "missing-entry"),
		Entry("its store is another one", func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store.Container = new("other") }, "snapshots went to"),
	)

	It("lets CAs be rotated before they expire, each stage seen by every member", func() {
		start(3)
		change(func(etcd *druidv1alpha1.Etcd) { relabel(etcd); withoutRequest(etcd) })
		drive.run()
		old := connection()["ca.crt"]
		for range 5 { // the certificates
			later(600 * day)
		}
		Expect(recorded("rotation")).To(And(ContainSubstring(`"stage":"Prepared"`), ContainSubstring(`"automatic":true`)))
		Expect(string(connection()["ca.crt"])).To(And(ContainSubstring(string(old)), Not(Equal(string(old)))))
		later(8 * day)
		Expect(recorded("rotation")).NotTo(ContainSubstring("stage"))
		Expect(string(connection()["ca.crt"])).NotTo(ContainSubstring(string(old)))
		Expect(issued("main-client-ca")).To(HaveLen(1))
		Expect(pods()).To(HaveEach(HaveField("Labels", HaveKeyWithValue("role", "main"))))
		Expect(progress()).To(ContainSubstring("OperationAnnotationMissing: Generation 2"))
	})

	It("continues to roll out a generation that was accepted before", func() {
		start(1)
		change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		for len(pods()) < 2 {
			drive.reconcileOnce()
			k.Tick()
		}
		change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 5; relabel(etcd); withoutRequest(etcd) })
		drive.due = k.Clock.Now()
		drive.run()
		Expect(k.EtcdCluster().Members()).To(And(HaveLen(3), HaveEach(HaveField("Learner", false))))
		Expect(pods()).To(HaveEach(HaveField("Labels", HaveKeyWithValue("role", "main"))))
		Expect(progress()).To(Equal("False OperationAnnotationMissing: Generation 3 is rolled out when the annotation druid.gardener.cloud/operation=reconcile requests it"))
	})

	It("does nothing at all while it is suspended", func() {
		start(3)
		before, server := uids(), issued("main-server")
		change(func(etcd *druidv1alpha1.Etcd) {
			relabel(etcd)
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "")
		})
		drive.run()
		k.Clock.Step(600 * day)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(uids()).To(Equal(before))
		Expect(issued("main-server")).To(Equal(server))
	})

	It("issues nothing for an Etcd that is being handed back", func() {
		start(3)
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		fixture.SetRecord(mr, func(s *state.State) { s.HandBack = 1 })
		Expect(k.Client(nil).Update(ctx, mr)).To(Succeed())
		server := issued("main-server")
		change(func(etcd *druidv1alpha1.Etcd) {
			relabel(etcd)
			withoutRequest(etcd)
		})
		k.Clock.Step(600 * day)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(issued("main-server")).To(Equal(server))
	})

	It("does not wake a cluster that hibernates, whose certificates are renewed", func() {
		start(3)
		change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })
		drive.due = k.Clock.Now()
		drive.run()
		Expect(pods()).To(BeEmpty())
		change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 2 })
		drive.due = k.Clock.Now()
		drive.run()
		server := issued("main-server")
		later(600 * day)
		Expect(pods()).To(BeEmpty())
		Expect(issued("main-server")).To(And(HaveLen(1), Not(Equal(server))))
		Expect(progress()).To(ContainSubstring("InvalidSpec: spec.replicas"))
	})

	It("does not restore a store annotation that a user has removed", func() {
		start(1, withStore)
		moveStore(k)
		change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 2 })
		drive.due = k.Clock.Now()
		drive.run()
		Expect(progress()).To(ContainSubstring("InvalidSpec: spec.replicas"))
		Expect(recorded("store")).To(BeEmpty())
	})

	DescribeTable("does not restore a store annotation that a user removes during an observation",
		func(replicas int32, at observerCall) {
			start(1, withStore)
			observations := 0
			drive.reconciler.Observer = &callObserver{Observer: drive.reconciler.Observer, onCall: func(over bool) {
				if !over {
					observations++
				}
				if at == (observerCall{number: observations, over: over}) {
					moveStore(k)
				}
			}}
			change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = replicas })
			drive.reconcileOnce()
			Expect(observations).To(Equal(at.number))
			Expect(recorded("store")).To(BeEmpty())
			Expect(drive.due).NotTo(BeZero(), "it reconciles again")

			By("using the other store once the spec can be rolled out")
			change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })
			drive.due = k.Clock.Now()
			drive.run()
			Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), progress())
			Expect(recorded("store")).To(ContainSubstring("other"))
		},
		Entry("after the spec was read", int32(1), observerCall{number: 1}),
		Entry("after the observation for the last accepted generation", int32(2), observerCall{number: 2, over: true}),
	)

	It("does not overwrite a size that another writer records while the operator observes the accepted generation", func() {
		start(1)
		observations := 0
		drive.reconciler.Observer = &callObserver{Observer: drive.reconciler.Observer, onCall: func(over bool) {
			if observations++; over && observations == 4 { // the newest generation was observed before
				mr := &resourcesv1alpha1.ManagedResource{}
				get(mr, "druid-main")
				fixture.SetRecord(mr, func(s *state.State) { s.Size = 3 })
				Expect(k.Client(nil).Update(ctx, mr)).To(Succeed())
			}
		}}
		change(func(etcd *druidv1alpha1.Etcd) { relabel(etcd); withoutRequest(etcd) })
		drive.reconcileOnce()
		Expect(observations).To(Equal(4))
		Expect(recorded("size")).To(Equal("3"))
		Expect(drive.due).NotTo(BeZero(), "it reconciles again")

		change(func(etcd *druidv1alpha1.Etcd) { relabel(etcd) })
		drive.due = k.Clock.Now()
		drive.run()
		Expect(progress()).To(ContainSubstring("Reconciled"))
		Expect(recorded("size")).To(Equal("1"), "the newest generation reduces the size")
	})

	It("leaves an Etcd to be deleted", func() {
		start(3)
		change(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 4 })
		drive.due = k.Clock.Now()
		drive.run()
		deleteEtcd(k)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(issued("main-server")).To(BeEmpty())
	})
})

// observerCall is the beginning or the end of a call of the observer.
type observerCall struct {
	number int
	over   bool
}

// callObserver calls onCall when an observation begins and when it ends.
type callObserver struct {
	etcd.Observer
	onCall func(over bool)
}

func (o *callObserver) Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation {
	o.onCall(false)
	defer o.onCall(true)
	return o.Observer.Observe(ctx, etcd, request)
}
