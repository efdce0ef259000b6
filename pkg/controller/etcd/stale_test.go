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
