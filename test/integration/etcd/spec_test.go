// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// quota is a change that shows in the pod template.
func quota(value string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Quota = new(resource.MustParse(value)) }
}

// invalidResources passes the CustomResourceDefinition and is refused by the validation of StatefulSets.
func invalidResources(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.Resources = &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
}

var _ = Describe("A changed spec", func() {
	DescribeTable("should wait for the operation annotation, and replace the pod when it comes",
		func(ctx SpecContext, key string) {
			s := create(ctx)
			s.ready(ctx)
			mr, pod := s.managedResource(ctx, Default), s.pod(ctx, Default)

			s.update(ctx, quota("4Gi"))
			Eventually(func(g Gomega) {
				g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Progressing", "False", "OperationAnnotationMissing", "Generation 2"))
			}).Should(Succeed())
			unchanged(ctx, mr, pod)
			Expect(s.read(ctx, Default).Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(1)))

			s.update(ctx, setOperation(key))
			s.ready(ctx)
			Expect(s.pod(ctx, Default).UID).NotTo(Equal(pod.UID))
			etcd := s.read(ctx, Default)
			Expect(etcd.Status.LastOperation.Type).To(BeEquivalentTo("Reconcile"))
			Expect(fixture.Record(s.managedResource(ctx, Default)).Accepted.Generation).To(BeEquivalentTo(2))
		},
		Entry("under the key of etcd-druid", "druid.gardener.cloud/operation"),
		Entry("under Gardener's key", "gardener.cloud/operation"),
	)

	It("should remove the operation annotation when nothing has to change", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		pod := s.pod(ctx, Default)
		s.update(ctx, setOperation("gardener.cloud/operation"))
		s.ready(ctx)
		unchanged(ctx, pod)
	})

	It("should remove the operation annotation when it is applied, not when the pods are done", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		statefulSets.Hold(s.namespace, true)
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			quota("4Gi")(etcd)
			setOperation("gardener.cloud/operation")(etcd)
		})
		Eventually(func(g Gomega) {
			etcd := s.read(ctx, g)
			g.Expect(etcd.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
			g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(2)))
			g.Expect(etcd.Status.Ready).To(HaveValue(BeFalse()))
			g.Expect(etcd.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Requeue")))
		}).Should(Succeed())

		By("hibernating during a rolling update that does not end")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 0
			setOperation("gardener.cloud/operation")(etcd)
		})
		s.ready(ctx)
	})

	It("should leave the spec alone while it is suspended, and say so once", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		mr := s.managedResource(ctx, Default)

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "")
		})
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			quota("4Gi")(etcd)
			setOperation("gardener.cloud/operation")(etcd)
		})
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Progressing", "False", "Suspended", "Generation 2"))
		}).Should(Succeed())

		By("keeping the status up to date")
		Expect(env.Client.Delete(ctx, s.pod(ctx, Default), client.GracePeriodSeconds(0))).To(Succeed())
		statefulSets.Hold(s.namespace, true)
		Eventually(func(g Gomega) { g.Expect(s.pod(ctx, g).DeletionTimestamp).To(BeNil()) }).Should(Succeed())
		statefulSets.Hold(s.namespace, false)
		unchanged(ctx, mr)
		Eventually(func(g Gomega) {
			g.Expect(s.events(ctx, g)).To(ContainElement(ContainSubstring("SpecReconciliationSkipped: Generation 2 is not rolled out because of the annotation druid.gardener.cloud/suspend-etcd-spec-reconcile")))
		}).Should(Succeed())
		Expect(s.read(ctx, Default).Annotations).To(HaveKey("gardener.cloud/operation"))

		By("continuing when it is resumed")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			delete(etcd.Annotations, "druid.gardener.cloud/suspend-etcd-spec-reconcile")
		})
		s.ready(ctx)
	})

	It("should name what the API server refuses, and never let it reach the ManagedResource", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		mr := s.managedResource(ctx, Default)

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			invalidResources(etcd)
			setOperation("gardener.cloud/operation")(etcd)
		})
		Eventually(func(g Gomega) {
			etcd := s.read(ctx, g)
			g.Expect(etcd.Status.LastErrors).To(ConsistOf(And(
				HaveField("Code", BeEquivalentTo("ERR_INVALID_SPEC")),
				HaveField("Description", ContainSubstring("resources.requests")),
			)))
			g.Expect(etcd.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Error")))
			g.Expect(etcd.Status.Conditions).To(haveCondition("Progressing", "False", "InvalidSpec", "resources.requests"))
			g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(1)))
		}).Should(Succeed())
		unchanged(ctx, mr, s.etcd)

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Resources = nil })
		s.ready(ctx)
	})

	It("should refuse a size below the one that the data knows, naming the field", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		mr := s.managedResource(ctx, Default)
		patch := client.MergeFrom(mr.DeepCopy())
		fixture.SetRecord(mr, func(s *state.State) { s.Size = 3 })
		Expect(env.Client.Patch(ctx, mr, patch)).To(Succeed())
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Labels["changed"] = "true"
			setOperation("gardener.cloud/operation")(etcd)
		})
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastErrors).To(ConsistOf(HaveField("Description", HavePrefix("spec.replicas: "))))
		}).Should(Succeed())
	})

	It("should create the first of three members alone", func(ctx SpecContext) {
		s := create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		Eventually(func(g Gomega) {
			mr := s.managedResource(ctx, g)
			g.Expect(fixture.Record(mr)).To(And(HaveField("Replicas", HaveValue(BeEquivalentTo(1))), HaveField("Size", BeEquivalentTo(1))))
			g.Expect(s.statefulSet(ctx, g).Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
			etcd := s.read(ctx, g)
			g.Expect(etcd.Status.LastOperation.State).To(BeEquivalentTo("Requeue"))
			g.Expect(etcd.Status.ObservedGeneration).To(BeNil(), "the last member is yet to come")
		}).Should(Succeed())
	})

	It("should refuse another store than the one that was first used", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "backup"}})).To(Succeed())
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
				Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("bucket"), Prefix: s.namespace + "/main",
				SecretRef: &corev1.SecretReference{Name: "backup"},
			}
		})
		s.ready(ctx)
		for _, name := range []string{"main-full-snap", "main-delta-snap"} {
			s.get(ctx, Default, &coordinationv1.Lease{}, name)
		}
		mr := s.managedResource(ctx, Default)
		Expect(mr.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", ContainSubstring(`"container":"bucket"`)))

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store.Container = new("other")
			setOperation("gardener.cloud/operation")(etcd)
		})
		Eventually(func(g Gomega) {
			etcd := s.read(ctx, g)
			g.Expect(etcd.Status.Conditions).To(haveCondition("StoreResolved", "False", "StoreChanged", "spec.backup.store", `"bucket"`, `"other"`))
			g.Expect(etcd.Status.LastErrors).To(ConsistOf(HaveField("Code", BeEquivalentTo("ERR_RESOLVE_STORE"))))
		}).Should(Succeed())
		unchanged(ctx, mr)

		By("moving to it when the record of the first is removed, and ignoring the snapshots in it")
		record := func(name, revision string) types.UID {
			lease := &coordinationv1.Lease{}
			s.get(ctx, Default, lease, name)
			Expect(lease.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", ContainSubstring(`"bucket"`)))
			before := lease.DeepCopy()
			lease.Spec.HolderIdentity, lease.Spec.RenewTime = &revision, new(metav1.NowMicro())
			Expect(env.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())

			return lease.UID
		}
		full, delta := record("main-full-snap", "100"), record("main-delta-snap", "200")
		before := mr.DeepCopy()
		delete(mr.Annotations, "etcd-druid.extensions.gardener.cloud/store")
		Expect(env.Client.Patch(ctx, mr, client.MergeFrom(before))).To(Succeed())
		s.update(ctx, setOperation("gardener.cloud/operation"))
		s.ready(ctx)
		Eventually(func(g Gomega) {
			for name, uid := range map[string]types.UID{"main-full-snap": full, "main-delta-snap": delta} {
				lease := &coordinationv1.Lease{}
				s.get(ctx, g, lease, name)
				g.Expect(lease.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", ContainSubstring(`"other"`)))
				g.Expect(lease.UID).NotTo(Equal(uid))
				g.Expect(lease.Spec.HolderIdentity).To(BeNil())
			}
		}).Should(Succeed())
		tasks := &druidv1alpha1.EtcdOpsTaskList{}
		Expect(env.Client.List(ctx, tasks, client.InNamespace(s.namespace))).To(Succeed())
		Expect(tasks.Items).To(ConsistOf(And(
			HaveField("Name", "main-store-2"), HaveField("Spec.EtcdName", HaveValue(Equal("main"))),
			HaveField("Spec.Config.OnDemandSnapshot", HaveValue(HaveField("Type", BeEquivalentTo("full")))),
		)))
	})

	It("should note the store on leases of before, and leave them alone", func(ctx SpecContext) {
		s := create(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("bucket"), Prefix: "p"}
		})
		s.ready(ctx)
		lease := &coordinationv1.Lease{}
		s.get(ctx, Default, lease, "main-full-snap")
		before := lease.DeepCopy()
		delete(lease.Annotations, "etcd-druid.extensions.gardener.cloud/store")
		Expect(env.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())
		s.update(ctx, setOperation("gardener.cloud/operation"))
		Eventually(func(g Gomega) {
			s.get(ctx, g, lease, "main-full-snap")
			g.Expect(lease.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", `Local container "bucket" prefix "p"`))
		}).Should(Succeed())
		Expect(lease.UID).To(Equal(before.UID))
	})
})

var _ = Describe("What an Etcd needs", func() {
	tls := func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
			TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "ca"}},
			ServerTLSSecretRef: corev1.SecretReference{Name: "server"},
			ClientTLSSecretRef: corev1.SecretReference{Name: "client"},
		}
	}
	secret := func(ctx SpecContext, s *testEtcd, name string, keys ...string) {
		GinkgoHelper()
		data := map[string][]byte{}
		for _, key := range keys {
			data[key] = []byte("x")
		}
		Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: data})).To(Succeed())
	}

	It("should name the secrets that are missing, and continue when the last one is created", func(ctx SpecContext) {
		s := create(ctx, tls)
		waitsFor := func(parts ...string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				etcd := s.read(ctx, g)
				g.Expect(etcd.Status.Conditions).To(haveCondition("Progressing", "True", "Waiting", parts...))
				g.Expect(etcd.Status.LastErrors).To(BeEmpty())
			}).Should(Succeed())
		}
		waitsFor("Secret ca", "Secret server", "Secret client", "spec.etcd.clientUrlTls")
		Eventually(func(g Gomega) {
			g.Expect(s.events(ctx, g)).To(ContainElement(And(HavePrefix("Warning SecretsMissing: "), ContainSubstring("Secret ca"))))
		}).Should(Succeed())
		started := &appsv1.StatefulSetList{}
		Expect(env.Client.List(ctx, started, client.InNamespace(s.namespace))).To(Succeed())
		Expect(started.Items).To(BeEmpty())

		secret(ctx, s, "ca", "bundle.crt")
		secret(ctx, s, "server", "tls.crt", "tls.key")
		secret(ctx, s, "client", "tls.crt")
		waitsFor("Secret client", "tls.key")

		By("noticing a key that is added")
		client0 := &corev1.Secret{}
		s.get(ctx, Default, client0, "client")
		client0.Data["tls.key"] = []byte("x")
		Expect(env.Client.Update(ctx, client0)).To(Succeed())
		s.ready(ctx)

		By("using the key of the CA that there is, also when another appears later")
		Expect(fixture.Record(s.managedResource(ctx, Default)).Accepted.CADataKeys).To(HaveKeyWithValue("ca", "bundle.crt"))
	})

	It("should remove the finalizer of etcd-druid from its secrets", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		for _, name := range []string{"ca", "server", "client"} {
			Expect(env.Client.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Finalizers: []string{"druid.gardener.cloud/etcd-druid"}},
				Data:       map[string][]byte{"ca.crt": nil, "tls.crt": nil, "tls.key": nil},
			})).To(Succeed())
		}
		s.create(ctx, tls)
		s.ready(ctx)
		for _, name := range []string{"ca", "server", "client"} {
			secret := &corev1.Secret{}
			s.get(ctx, Default, secret, name)
			Expect(secret.Finalizers).To(BeEmpty(), name)
		}
	})

	It("should recreate the lease of a previous Etcd", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		stale := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.namespace, Name: "main-0",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: "main", UID: "an-earlier-one", Controller: new(true)}},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new("1:2:Leader")},
		}
		Expect(env.Client.Create(ctx, stale)).To(Succeed())
		s.create(ctx)
		s.ready(ctx)
		lease := &coordinationv1.Lease{}
		s.get(ctx, Default, lease, "main-0")
		Expect(metav1.IsControlledBy(lease, s.etcd)).To(BeTrue())
		Expect(lease.Spec.HolderIdentity).To(BeNil())
	})

	It("should not take a lease with another owner", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		foreign := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "main-0"}}
		Expect(env.Client.Create(ctx, foreign)).To(Succeed())
		s.create(ctx)
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastErrors).To(ConsistOf(And(
				HaveField("Code", BeEquivalentTo("ERR_SYNC_MEMBER_LEASE")), HaveField("Description", ContainSubstring("Lease main-0")))))
		}).Should(Succeed())
		unchanged(ctx, foreign)
	})

	It("should reject a ManagedResource of that name with another origin", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		foreign := newForeignManagedResource(s.namespace)
		Expect(env.Client.Create(ctx, foreign)).To(Succeed())
		s.create(ctx)
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastErrors).To(ConsistOf(HaveField("Description", ContainSubstring("ManagedResource druid-main"))))
		}).Should(Succeed())
	})

	DescribeTable("should be recreated when a user deletes it",
		func(ctx SpecContext, obj client.Object, name string) {
			s := create(ctx)
			s.ready(ctx)
			s.get(ctx, Default, obj, name)
			uid := obj.GetUID()
			Expect(env.Client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
			Eventually(func(g Gomega) {
				s.get(ctx, g, obj, name)
				g.Expect(obj.GetUID()).NotTo(Equal(uid))
			}).Should(Succeed())
			s.ready(ctx)
		},
		Entry("the StatefulSet", &appsv1.StatefulSet{}, "main"),
		Entry("the client Service", &corev1.Service{}, "main-client"),
		Entry("the ConfigMap", &corev1.ConfigMap{}, "main-config"),
	)

	It("should be scaled back when a user scales its StatefulSet", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		statefulSet := s.statefulSet(ctx, Default)
		before := statefulSet.DeepCopy()
		statefulSet.Spec.Replicas = new(int32(0))
		Expect(env.Client.Patch(ctx, statefulSet, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(s.statefulSet(ctx, g).Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
		}).Should(Succeed())
		s.ready(ctx)
	})

	It("should get a new StatefulSet, and keep the pod until then, for what cannot be changed in place", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		statefulSet, pod := s.statefulSet(ctx, Default), s.pod(ctx, Default)
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi"))
			setOperation("gardener.cloud/operation")(etcd)
		})
		s.ready(ctx)
		now := s.statefulSet(ctx, Default)
		Expect(now.UID).NotTo(Equal(statefulSet.UID))
		Expect(now.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()).To(Equal("32Gi"))
		Expect(s.pod(ctx, Default).Name).To(Equal(pod.Name))
	})
})

var _ = Describe("An operator of another version", Serial, func() {
	It("should render what runs with what it was accepted with, until the next operation", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		mr, pod := s.managedResource(ctx, Default), s.pod(ctx, Default)

		stopOperator()
		stopOperator = startOperator("v2", false)
		unchanged(ctx, mr, pod, s.etcd)

		By("rendering a new Etcd with its own")
		other := create(ctx)
		other.ready(ctx)
		Expect(image(other.statefulSet(ctx, Default))).To(Equal("registry.example.com/etcd-wrapper:v2"))

		By("not rolling out a change whose reconciliation is not requested")
		s.update(ctx, quota("4Gi"))
		unchanged(ctx, mr, pod)

		s.update(ctx, setOperation("druid.gardener.cloud/operation"))
		s.ready(ctx)
		Expect(image(s.statefulSet(ctx, Default))).To(Equal("registry.example.com/etcd-wrapper:v2"))
	})

	It("should reconcile each generation immediately with auto-reconcile, but change nothing by itself", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		mr, pod := s.managedResource(ctx, Default), s.pod(ctx, Default)

		stopOperator()
		stopOperator = startOperator("v3", true)
		DeferCleanup(func() {
			stopOperator()
			stopOperator = startOperator("v1", false)
		})
		unchanged(ctx, mr, pod)

		s.update(ctx, quota("4Gi"))
		s.ready(ctx)
		Expect(image(s.statefulSet(ctx, Default))).To(Equal("registry.example.com/etcd-wrapper:v3"))
	})

	It("should not replace a pod because a user changed the template", func(ctx SpecContext) {
		s := create(ctx)
		s.ready(ctx)
		pod := s.pod(ctx, Default)
		statefulSet := s.statefulSet(ctx, Default)
		before := statefulSet.DeepCopy()
		// As by kubectl rollout restart: gardener-resource-manager keeps this annotation.
		metav1.SetMetaDataAnnotation(&statefulSet.Spec.Template.ObjectMeta, "kubectl.kubernetes.io/restartedAt", "2000-01-01T00:00:00Z")
		Expect(env.Client.Patch(ctx, statefulSet, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(And(
				haveCondition("AllMembersUpdated", "False", "NotAllMembersUpdated"),
				haveCondition("Progressing", "False", "Reconciled", "next operation")))
		}).Should(Succeed())
		unchanged(ctx, pod)
	})
})

func image(statefulSet *appsv1.StatefulSet) string {
	for _, container := range statefulSet.Spec.Template.Spec.Containers {
		if container.Name == "etcd" {
			return container.Image
		}
	}
	return ""
}
