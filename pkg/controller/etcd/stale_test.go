// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// staleClient writes to the API server, and reads objects of some kinds from a cache that is older.
type staleClient struct {
	client.Client

	cache client.Client
	kinds []string
}

func (c staleClient) isStale(obj any) bool {
	name := fmt.Sprintf("%T", obj)
	name = strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "List")

	return len(c.kinds) == 0 || slices.Contains(c.kinds, name)
}

// Get implements client.Reader.
func (c staleClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if c.isStale(obj) {
		return c.cache.Get(ctx, key, obj, opts...)
	}

	return c.Client.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c staleClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if c.isStale(list) {
		return c.cache.List(ctx, list, opts...)
	}

	return c.Client.List(ctx, list, opts...)
}

var _ = Describe("A new leader whose caches are stale at first", func() {
	// takesOver lets an operator with caches of an earlier moment reconcile once, and then one with current caches until the end.
	takesOver := func(now, earlier crashPoint, kinds ...string) *kube.Cluster {
		k, before := now.cluster.Fork(), earlier.cluster.Fork()
		o := startOperator(k, nil)
		stale := staleClient{Client: k.Client(nil), cache: before.Client(nil), kinds: kinds}
		o.reconciler.Client = stale
		o.reconciler.Observer = &observer.Observer{Reader: stale, APIReader: k.Client(nil), Etcd: k.Connector(nil), Clock: k.Clock}
		o.reconcileOnce()
		startOperator(k, nil).run()

		return k
	}

	DescribeTable("does nothing that it would not do with current ones, while one member becomes three",
		func(kinds ...string) {
			s := crashCase{given: []func(*kube.Cluster){create(1, withStore)}, when: update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })}
			undisturbed, moments := s.record()
			runs, want := distinct(moments), undisturbed.Snapshot()
			var failures []string
			for i := range runs {
				k := takesOver(runs[i], runs[max(0, i-4)], kinds...)
				found := append(slices.Clone(k.Violations), kube.Differences(want, k.Snapshot())...)
				if k.PodsCreated > undisturbed.PodsCreated {
					found = append(found, fmt.Sprintf("%d pods were created instead of %d", k.PodsCreated, undisturbed.PodsCreated))
				}
				if len(found) > 0 {
					failures = append(failures, fmt.Sprintf("%s, with caches of four moments before:\n%s", runs[i].what, strings.Join(found, "\n")))
				}
			}
			Expect(failures).To(BeEmpty())
		},
		Entry("all of them"),
		Entry("those of ManagedResources", "ManagedResource"),
		Entry("those of pods and StatefulSets", "Pod", "StatefulSet"),
	)

	// deletesWith deletes the Etcd with caches of an earlier moment until they have been stale for a minute, and then with current ones.
	deletesWith := func(k, earlier *kube.Cluster, kinds ...string) {
		GinkgoHelper()
		deleteEtcd(k)
		claims := len(k.Claims())
		checked := func(kube.Write) {} // the cluster checks only writes that are counted
		o := startOperator(k, checked)
		stale := staleClient{Client: k.Client(checked), cache: earlier.Client(nil), kinds: kinds}
		o.reconciler.Client = stale
		o.reconciler.Observer = &observer.Observer{Reader: stale, APIReader: k.Client(nil), Etcd: k.Connector(nil), Sidecars: k.Sidecars(nil), Clock: k.Clock}
		for range 60 {
			if !o.due.IsZero() && !o.due.After(k.Clock.Now()) {
				o.reconcileOnce()
			}
			if k.Tick() {
				o.due = k.Clock.Now()
			}
		}
		Expect(k.Violations).To(BeEmpty())
		Expect(k.Claims()).To(HaveLen(claims))
		Expect(k.EtcdObject().Status.LastOperation.Description).To(HavePrefix("Waiting for the caches to show "))
		startOperator(k, checked).run()
		Expect(k.Violations).To(BeEmpty())
	}

	It("deletes no volume with the snapshot of a hibernation that has ended", func() {
		k := reconciledCluster(3, plaintext, withStore, deletingAll)
		setReplicas := func(replicas int32) {
			update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = replicas })(k)
			startOperator(k, nil).run()
		}
		setReplicas(0)
		hibernated := k.Fork()
		setReplicas(3)
		Expect(k.EtcdCluster().Write()).To(Succeed())
		deletesWith(k, hibernated, "ManagedResource", "Pod", "StatefulSet")
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.JobsCreated).To(BeZero(), "no Job inspects the volume of a member that runs")
	})

	It("deletes no volume of a hibernated cluster because the caches do not show that the claim has one", func() {
		k := reconciledCluster(1, plaintext, withStore, deletingAll)
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })(k)
		startOperator(k, nil).run()
		unbound := k.Fork()
		claim := find(unbound, "main-main-0", &corev1.PersistentVolumeClaim{})
		claim.Spec.VolumeName = ""
		Expect(unbound.Client(nil).Update(context.Background(), claim)).To(Succeed())
		deletesWith(k, unbound, "PersistentVolumeClaim")
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.JobsCreated).To(Equal(1), "the volume was inspected")
	})

	DescribeTable("deletes no volume as one without data after a member was healthy",
		func(isRunning bool, kinds ...string) {
			k := newCluster()
			create(1, plaintext, withStore, deletingAll)(k)
			var starting *kube.Cluster // it has Leases and no pod
			for o := startOperator(k, nil); k.PodsCreated == 0; k.Tick() {
				o.reconcileOnce()
				starting = k.Fork()
			}
			startOperator(k, nil).run()
			Expect(k.EtcdCluster().Write()).To(Succeed())
			if !isRunning {
				k.BreakImage("registry.example.com/etcd-wrapper:v1")
				Expect(k.Client(nil).Delete(context.Background(), find(k, "main-0", &corev1.Pod{}))).To(Succeed())
				for range 10 {
					k.Tick()
				}
			}
			deletesWith(k, starting, kinds...)
			Expect(k.EtcdObject() == nil).To(Equal(isRunning), "no member can take a snapshot if none runs")
		},
		Entry("whose pod runs", true, "ManagedResource", "Pod", "StatefulSet", "Lease"),
		Entry("whose new pod does not start", false, "Lease"),
	)

	It("does not record another store while it does not observe the ManagedResource that records one", func() {
		k := kube.New(scheme)
		create(1, withStore)(k)
		startOperator(k, nil).run()
		store := func() string {
			mr := &resourcesv1alpha1.ManagedResource{}
			must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: "demo", Name: "druid-main"}, mr))

			return mr.Annotations[druidv1alpha1.ManagedResourceAnnotationStore]
		}
		recorded := store()
		Expect(recorded).NotTo(BeEmpty())
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store.Container = new("other") })(k)

		o := startOperator(k, nil)
		stale := staleClient{Client: k.Client(nil), cache: kube.New(scheme).Client(nil), kinds: []string{"ManagedResource"}}
		o.reconciler.Observer = &observer.Observer{Reader: stale, APIReader: k.Client(nil), Etcd: k.Connector(nil), Clock: k.Clock}
		o.reconcileOnce()
		Expect(store()).To(Equal(recorded))
		Expect(o.due).NotTo(BeZero(), "it reconciles again")

		startOperator(k, nil).run()
		Expect(store()).To(Equal(recorded))
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("StoreResolved")), HaveField("Reason", "StoreChanged"))))
	})
})
