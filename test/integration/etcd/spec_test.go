// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// quota sets the quota, which changes the pod template.
func quota(value string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Quota = new(resource.MustParse(value)) }
}

// invalidResources sets resources that the CustomResourceDefinition accepts and the validation of StatefulSets rejects.
func invalidResources(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.Resources = &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
}

var _ = Describe("A changed spec", func() {
	DescribeTable("should wait for the operation annotation and then replace the pod",
		func(ctx SpecContext, key string) {
			s := create(ctx)
			s.awaitReady(ctx)
			mr, pod := s.managedResource(ctx, Default), s.pod(ctx, Default)

			s.update(ctx, quota("4Gi"))
			Eventually(func(g Gomega) {
				g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Reconciled", "False", "OperationAnnotationMissing", "Generation 2"))
			}).Should(Succeed())
			expectUnchanged(ctx, mr, pod)
			Expect(s.read(ctx, Default).Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(1)))

			s.update(ctx, setOperation(key))
			s.awaitReady(ctx)
			Expect(s.pod(ctx, Default).UID).NotTo(Equal(pod.UID))
			etcd := s.read(ctx, Default)
			Expect(etcd.Status.LastOperation.Type).To(BeEquivalentTo("Reconcile"))
			Expect(fixture.Record(s.managedResource(ctx, Default)).Accepted.Generation).To(BeEquivalentTo(2))
		},
		Entry("with the key of etcd-druid", "druid.gardener.cloud/operation"),
		Entry("with the key of Gardener", "gardener.cloud/operation"),
	)

	It("should remove the operation annotation if nothing has changed, and keep the manifest that kubectl applied last", func(ctx SpecContext) {
		s := create(ctx, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, corev1.LastAppliedConfigAnnotation, "{}")
		})
		s.awaitReady(ctx)
		pod := s.pod(ctx, Default)
		s.update(ctx, setOperation("gardener.cloud/operation"))
		s.awaitReady(ctx)
		expectUnchanged(ctx, pod)
		Expect(s.read(ctx, Default).Annotations).To(HaveKeyWithValue(corev1.LastAppliedConfigAnnotation, "{}"))
	})

	It("should remove the operation annotation when the change is applied, before the pods are replaced", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		statefulSets.SetReadinessBlocked(s.namespace, true)
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			quota("4Gi")(etcd)
			setOperation("gardener.cloud/operation")(etcd)
		})
		Eventually(func(g Gomega) {
			etcd := s.read(ctx, g)
			g.Expect(etcd.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
			g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(1)), "the generation is not rolled out")
			g.Expect(etcd.Status.Ready).To(HaveValue(BeFalse()))
			g.Expect(etcd.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Requeue")))
			g.Expect(etcd.Status.Conditions).To(haveCondition("Reconciled", "False", "Waiting", "main-0"))
		}).Should(Succeed())

		By("hibernating during a blocked rolling update")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 0
			setOperation("gardener.cloud/operation")(etcd)
		})
		s.awaitReady(ctx)
	})

	It("should not be rolled out while the Etcd is suspended, which is reported once", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		mr := s.managedResource(ctx, Default)

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "")
		})
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			quota("4Gi")(etcd)
			setOperation("gardener.cloud/operation")(etcd)
		})
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Reconciled", "False", "Suspended", "Generation 2"))
		}).Should(Succeed())

		By("updating the status")
		Expect(env.Client.Delete(ctx, s.pod(ctx, Default), client.GracePeriodSeconds(0))).To(Succeed())
		statefulSets.SetReadinessBlocked(s.namespace, true)
		Eventually(func(g Gomega) { g.Expect(s.pod(ctx, g).DeletionTimestamp).To(BeNil()) }).Should(Succeed())
		statefulSets.SetReadinessBlocked(s.namespace, false)
		expectUnchanged(ctx, mr)
		Eventually(func(g Gomega) {
			g.Expect(s.events(ctx, g)).To(ContainElement(ContainSubstring("SpecReconciliationSkipped: Generation 2 is not rolled out because of the annotation druid.gardener.cloud/suspend-etcd-spec-reconcile")))
		}).Should(Succeed())
		Expect(s.read(ctx, Default).Annotations).To(HaveKey("gardener.cloud/operation"))

		By("continuing after the annotation is removed")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			delete(etcd.Annotations, "druid.gardener.cloud/suspend-etcd-spec-reconcile")
		})
		s.awaitReady(ctx)
	})

	DescribeTable("should report which field the API server rejects, and not change the ManagedResource", func(ctx SpecContext, invalidate, correct func(*druidv1alpha1.Etcd), prefix string) {
		s := create(ctx, fixture.WithLocalStore())
		s.awaitReady(ctx)
		mr := s.managedResource(ctx, Default)

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			invalidate(etcd)
			setOperation("gardener.cloud/operation")(etcd)
		})
		Eventually(func(g Gomega) {
			etcd := s.read(ctx, g)
			g.Expect(etcd.Status.LastErrors).To(ConsistOf(And(
				HaveField("Code", BeEquivalentTo("ERR_INVALID_SPEC")),
				HaveField("Description", And(HavePrefix(prefix), ContainSubstring("resources.requests"))),
			)))
			g.Expect(etcd.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Error")))
			g.Expect(etcd.Status.Conditions).To(haveCondition("Reconciled", "False", "InvalidSpec", "resources.requests"))
			g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(1)))
		}).Should(Succeed())
		expectUnchanged(ctx, mr, s.etcd)

		s.update(ctx, correct)
		s.awaitReady(ctx)
	},
		Entry("of the pods", invalidResources, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Resources = nil }, "the API server rejects the StatefulSet"),
		Entry("of the compaction, which changes no other object", func(etcd *druidv1alpha1.Etcd) {
			invalidResources(etcd)
			etcd.Spec.Backup.SnapshotCompaction = &druidv1alpha1.SnapshotCompactionSpec{Resources: etcd.Spec.Etcd.Resources}
			etcd.Spec.Etcd.Resources = nil
		}, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.SnapshotCompaction = nil }, "spec.backup.snapshotCompaction: the API server rejects the Job"),
	)

	It("should create the first of three members before the others", func(ctx SpecContext) {
		s := create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		Eventually(func(g Gomega) {
			mr := s.managedResource(ctx, g)
			g.Expect(fixture.Record(mr)).To(And(HaveField("Replicas", HaveValue(BeEquivalentTo(1))), HaveField("Size", BeEquivalentTo(1))))
			g.Expect(s.statefulSet(ctx, g).Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
			etcd := s.read(ctx, g)
			g.Expect(etcd.Status.LastOperation.State).To(BeEquivalentTo("Requeue"))
			g.Expect(etcd.Status.ObservedGeneration).To(BeNil(), "two members do not exist yet")
		}).Should(Succeed())
	})

	It("should be rejected if it changes the store", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "backup"}})).To(Succeed())
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
				Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("bucket"), Prefix: s.namespace + "/main",
				SecretRef: &corev1.SecretReference{Name: "backup"},
			}
		})
		s.awaitReady(ctx)
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
		expectUnchanged(ctx, mr)

		By("using the new store after the record of the old store is removed, and ignoring the snapshots in the old store")
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
		s.awaitReady(ctx)
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

	It("should record the store on existing snapshot leases without recreating them", func(ctx SpecContext) {
		s := create(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("bucket"), Prefix: "p"}
		})
		s.awaitReady(ctx)
		lease := &coordinationv1.Lease{}
		s.get(ctx, Default, lease, "main-full-snap")
		before := lease.DeepCopy()
		delete(lease.Annotations, "etcd-druid.extensions.gardener.cloud/store")
		Expect(env.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			s.update(ctx, setOperation("gardener.cloud/operation")) // the cache of the operator may have had the Lease from before at the last request
			s.get(ctx, g, lease, "main-full-snap")
			g.Expect(lease.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", `Local container "bucket" prefix "p"`))
		}).Should(Succeed())
		Expect(lease.UID).To(Equal(before.UID))
	})
})

var _ = Describe("An object that an Etcd needs", func() {
	tls := func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
			TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "ca"}},
			ServerTLSSecretRef: corev1.SecretReference{Name: "server"},
			ClientTLSSecretRef: corev1.SecretReference{Name: "client"},
		}
	}
	var certificates map[string][]byte
	secret := func(ctx SpecContext, s *testEtcd, name string, keys ...string) {
		GinkgoHelper()
		data := maps.Clone(certificates)
		maps.DeleteFunc(data, func(key string, _ []byte) bool { return !slices.Contains(keys, key) })
		Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: data})).To(Succeed())
	}

	It("should be reported if it is a missing Secret, until the last Secret is created", func(ctx SpecContext) {
		s := create(ctx, tls)
		certificates = fixture.Certificates("main", s.namespace)
		waitsFor := func(parts ...string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				etcd := s.read(ctx, g)
				g.Expect(etcd.Status.Conditions).To(haveCondition("Reconciled", "False", "Waiting", parts...))
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
		for _, name := range []string{"ca", "server"} {
			found := &corev1.Secret{}
			s.get(ctx, Default, found, name)
			Expect(found.Finalizers).To(BeEmpty(), "no pod mounts Secret %s", name)
		}

		By("continuing after the missing key is added")
		client0 := &corev1.Secret{}
		s.get(ctx, Default, client0, "client")
		client0.Data["tls.key"] = certificates["tls.key"]
		Expect(env.Client.Update(ctx, client0)).To(Succeed())
		s.awaitReady(ctx)

		By("recording the existing key of the CA")
		Expect(fixture.Record(s.managedResource(ctx, Default)).Accepted.CADataKeys).To(HaveKeyWithValue("ca", "bundle.crt"))
	})

	It("should be a protected Secret until no Etcd uses it", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		names := []string{"ca", "server", "client"}
		certificates = fixture.Certificates("main", s.namespace)
		for _, name := range names {
			Expect(env.Client.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
				Data:       certificates,
			})).To(Succeed())
		}
		finalizers := func(g Gomega, name string) []string {
			secret := &corev1.Secret{}
			s.get(ctx, g, secret, name)
			return secret.Finalizers
		}
		s.create(ctx, tls)
		s.awaitReady(ctx)
		for _, name := range names {
			Eventually(func(g Gomega) {
				g.Expect(finalizers(g, name)).To(ConsistOf("druid.gardener.cloud/etcd-druid"), name)
			}).Should(Succeed())
		}

		By("deleting a Secret that is used: nothing breaks")
		server := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "server"}}
		Expect(env.Client.Delete(ctx, server)).To(Succeed())
		s.get(ctx, Default, server, "server")
		Expect(server.DeletionTimestamp).NotTo(BeNil())
		request := setOperation("gardener.cloud/operation")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Labels["changed"] = "true"
			request(etcd)
		})
		s.awaitReady(ctx)

		By("naming another Secret: the deletion completes when no pod mounts the old one any more")
		secret(ctx, s, "server-2", "tls.crt", "tls.key")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.ClientUrlTLS.ServerTLSSecretRef.Name = "server-2"
			request(etcd)
		})
		s.awaitReady(ctx)
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(server), server)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}).WithTimeout(2 * time.Minute).Should(Succeed())
		Eventually(func(g Gomega) { g.Expect(finalizers(g, "server-2")).NotTo(BeEmpty()) }).Should(Succeed())

		By("deleting the Etcd")
		Expect(env.Client.Delete(ctx, s.read(ctx, Default))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "main"}, &druidv1alpha1.Etcd{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}).Should(Succeed())
		for _, name := range []string{"ca", "client", "server-2"} {
			Expect(finalizers(Default, name)).To(BeEmpty(), name)
		}
	})

	It("should be recreated if it is the Lease of a previous Etcd", func(ctx SpecContext) {
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
		s.awaitReady(ctx)
		lease := &coordinationv1.Lease{}
		s.get(ctx, Default, lease, "main-0")
		Expect(metav1.IsControlledBy(lease, s.etcd)).To(BeTrue())
		Expect(lease.Spec.HolderIdentity).To(BeNil())
	})

	It("should not be changed if it is a Lease with another owner", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		foreign := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "main-0"}}
		Expect(env.Client.Create(ctx, foreign)).To(Succeed())
		s.create(ctx)
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastErrors).To(ConsistOf(And(
				HaveField("Code", BeEquivalentTo("ERR_SYNC_MEMBER_LEASE")), HaveField("Description", ContainSubstring("Lease main-0")))))
		}).Should(Succeed())
		expectUnchanged(ctx, foreign)
	})

	It("should be reported if it is a ManagedResource with another origin", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		foreign := newForeignManagedResource(s.namespace)
		Expect(env.Client.Create(ctx, foreign)).To(Succeed())
		s.create(ctx)
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastErrors).To(ConsistOf(HaveField("Description", ContainSubstring("ManagedResource druid-main"))))
		}).Should(Succeed())
	})

	DescribeTable("should be recreated if a user deletes it",
		func(ctx SpecContext, obj client.Object, name string) {
			s := create(ctx)
			s.awaitReady(ctx)
			s.get(ctx, Default, obj, name)
			uid := obj.GetUID()
			Expect(env.Client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
			Eventually(func(g Gomega) {
				s.get(ctx, g, obj, name)
				g.Expect(obj.GetUID()).NotTo(Equal(uid))
			}).Should(Succeed())
			s.awaitReady(ctx)
		},
		Entry("the StatefulSet", &appsv1.StatefulSet{}, "main"),
		Entry("the client Service", &corev1.Service{}, "main-client"),
		Entry("the ConfigMap", &corev1.ConfigMap{}, "main-config"),
	)

	It("should be scaled back if it is the StatefulSet and a user scales it", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		statefulSet := s.statefulSet(ctx, Default)
		before := statefulSet.DeepCopy()
		statefulSet.Spec.Replicas = new(int32(0))
		Expect(env.Client.Patch(ctx, statefulSet, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(s.statefulSet(ctx, g).Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
		}).Should(Succeed())
		s.awaitReady(ctx)
	})

	It("should be recreated if it is the StatefulSet and an immutable field changes", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		statefulSet, pod := s.statefulSet(ctx, Default), s.pod(ctx, Default)
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi"))
			setOperation("gardener.cloud/operation")(etcd)
		})
		s.awaitReady(ctx)
		now := s.statefulSet(ctx, Default)
		Expect(now.UID).NotTo(Equal(statefulSet.UID))
		Expect(now.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()).To(Equal("32Gi"))
		Expect(s.pod(ctx, Default).Name).To(Equal(pod.Name))
	})
})

var _ = Describe("An operator of another version", Serial, func() {
	It("should use the images of the accepted generation until the next operation", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		mr, pod := s.managedResource(ctx, Default), s.pod(ctx, Default)

		stopOperator()
		stopOperator = startOperator("v2", false)
		expectUnchanged(ctx, mr, pod, s.etcd)

		By("rendering a new Etcd with the new images")
		other := create(ctx)
		other.awaitReady(ctx)
		Expect(image(other.statefulSet(ctx, Default))).To(Equal("registry.example.com/etcd-wrapper:v2"))

		By("not rolling out a change whose reconciliation is not requested")
		s.update(ctx, quota("4Gi"))
		expectUnchanged(ctx, mr, pod)

		s.update(ctx, setOperation("druid.gardener.cloud/operation"))
		s.awaitReady(ctx)
		Expect(image(s.statefulSet(ctx, Default))).To(Equal("registry.example.com/etcd-wrapper:v2"))
	})

	It("should reconcile each new generation immediately with auto-reconcile, but not change existing clusters", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		mr, pod := s.managedResource(ctx, Default), s.pod(ctx, Default)

		stopOperator()
		stopOperator = startOperator("v3", true)
		DeferCleanup(func() {
			stopOperator()
			stopOperator = startOperator("v1", false)
		})
		expectUnchanged(ctx, mr, pod)

		s.update(ctx, quota("4Gi"))
		s.awaitReady(ctx)
		Expect(image(s.statefulSet(ctx, Default))).To(Equal("registry.example.com/etcd-wrapper:v3"))
	})

	It("should not replace a pod if a user changes the pod template", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		pod := s.pod(ctx, Default)
		statefulSet := s.statefulSet(ctx, Default)
		before := statefulSet.DeepCopy()
		// kubectl rollout restart sets this annotation, and gardener-resource-manager keeps it.
		metav1.SetMetaDataAnnotation(&statefulSet.Spec.Template.ObjectMeta, "kubectl.kubernetes.io/restartedAt", "2000-01-01T00:00:00Z")
		Expect(env.Client.Patch(ctx, statefulSet, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(And(
				haveCondition("AllMembersUpdated", "False", "NotAllMembersUpdated"),
				haveCondition("Reconciled", "True", "Reconciled", "next operation")))
		}).Should(Succeed())
		expectUnchanged(ctx, pod)
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
