// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// counter counts the reads from the API server and the dry runs of an operator.
type counter struct {
	client.Client

	// object is what is counted, with its kind and name.
	object string
	// reads and dryRuns are how many requests were sent.
	reads, dryRuns int
	// dryRunError is the answer to dry runs of the object. Nil: the answer of the API server.
	dryRunError error
	// beforeDryRun is called before the first dry run of the object. Nil: nothing is called.
	beforeDryRun func()
}

// countRequests replaces the clients of an operator by ones that count.
func (o *operator) countRequests(object string) *counter {
	c := &counter{Client: o.cluster.Client(nil), object: object}
	o.reconciler.Reader = countedReader{c}
	o.reconciler.Client = writeguard.CountWrites(c)

	return c
}

func (c *counter) isCounted(obj client.Object, name string) bool {
	return fmt.Sprintf("%T/%s", obj, name) == c.object
}

// Patch implements client.Client.
func (c *counter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	options := client.PatchOptions{}
	if options.ApplyOptions(opts); slices.Contains(options.DryRun, metav1.DryRunAll) && c.isCounted(obj, obj.GetName()) {
		c.dryRuns++
		if c.dryRuns == 1 && c.beforeDryRun != nil {
			c.beforeDryRun()
		}
		if c.dryRunError != nil {
			return c.dryRunError
		}
	}

	return c.Client.Patch(ctx, obj, patch, opts...)
}

// countedReader reads from the API server. The client reads from the cache.
type countedReader struct{ *counter }

// Get implements client.Reader.
func (r countedReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if r.isCounted(obj, key.Name) {
		r.reads++
	}

	return r.Client.Get(ctx, key, obj, opts...)
}

// recordingReader records the objects whose metadata is read from the API server. Before a write, the operator reads only metadata.
type recordingReader struct {
	client.Reader
	read []string
}

// Get implements client.Reader.
func (r *recordingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if metadata, is := obj.(*metav1.PartialObjectMetadata); is {
		r.read = append(r.read, metadata.Kind+"/"+key.Name)
	}

	return r.Reader.Get(ctx, key, obj, opts...)
}

var _ = Describe("Requests of the operator for a new Etcd", func() {
	It("read neither the objects that a dry run has created nor a payload that must be written", func() {
		k := kube.New(scheme)
		create(1, plaintext)(k)
		o := startOperator(k, nil)
		requests := &recordingReader{Reader: k.Client(nil)}
		o.reconciler.Reader = requests
		o.run()
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Reason", "Reconciled"))))
		Expect(requests.read).To(ContainElements("Role/druid.gardener.cloud:etcd:main", "RoleBinding/druid.gardener.cloud:etcd:main", "ServiceAccount/main"), "they have no dry run")
		Expect(requests.read).NotTo(ContainElement(HavePrefix("Secret/managedresource-")))
		for _, kind := range []string{"ConfigMap", "PodDisruptionBudget", "Service", "StatefulSet"} {
			Expect(requests.read).NotTo(ContainElement(HavePrefix(kind + "/")))
		}
	})
})

var _ = Describe("Requests of the operator while nothing changes", func() {
	It("do not read the payload, whose metadata the cache has", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		o.run()
		mr := &resourcesv1alpha1.ManagedResource{}
		must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "druid-" + k.Etcd.Name}, mr))
		requests := o.countRequests("*v1.PartialObjectMetadata/" + mr.Spec.SecretRefs[0].Name)
		o.reconciler.Cache, o.reconciler.Client = k.Client(nil), writeguard.CountWrites(countedReader{requests})
		o.reconcileOnce()
		Expect(o.err).NotTo(HaveOccurred())
		Expect(requests.reads).To(BeZero())
	})
})

var _ = Describe("Requests of the operator after a restart", func() {
	const name = "-client"

	It("read no unchanged object beyond the limit, but a changed one at once", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		o.reconciler.Comparisons = rate.NewLimiter(0, 0)
		requests := o.countRequests("*v1.Service/" + k.Etcd.Name + name)
		o.run()
		Expect(requests.reads).To(BeZero())

		selector(k, "other")
		o.reconcileOnce()
		Expect(o.count("RepairingDrift")).To(Equal(1))
		Expect(requests.reads).To(Equal(1))
	})

	It("find an earlier change when the limit permits", func() {
		k := reconciledCluster(1)
		selector(k, "other")
		o := startOperator(k, nil)
		o.reconciler.Comparisons = rate.NewLimiter(0, 0)
		o.run()
		Expect(o.count("RepairingDrift")).To(BeZero())

		o.reconciler.Comparisons = rate.NewLimiter(rate.Inf, 0)
		o.reconcileOnce()
		k.Tick()
		Expect(o.count("RepairingDrift")).To(Equal(1))
		Expect(selector(k, "")).NotTo(HaveKey("x"))
	})

	It("find an earlier change when few Etcds wait for a worker", func() {
		k := reconciledCluster(1)
		selector(k, "other")
		o := startOperator(k, nil)
		waiting := 51
		o.reconciler.Waiting = func() int { return waiting }
		requests := o.countRequests("*v1.Service/" + k.Etcd.Name + name)
		Expect(o.reconcile()).To(HaveField("RequeueAfter", And(BeNumerically(">=", time.Minute), BeNumerically("<=", 11*time.Minute))), "no event follows")
		o.run()
		Expect(requests.reads).To(BeZero())

		waiting = 50
		o.reconcileOnce()
		k.Tick()
		Expect(o.count("RepairingDrift")).To(Equal(1))
		Expect(selector(k, "")).NotTo(HaveKey("x"))
	})

	It("find a changed StatefulSet at once, from which the operator may replace pods", func() {
		k := reconciledCluster(1)
		set := &appsv1.StatefulSet{}
		must(k.Client(nil).Get(context.Background(), k.Etcd, set))
		set.Spec.Template.Spec.PriorityClassName = "other"
		set.Generation++
		must(k.Client(nil).Update(context.Background(), set))
		o := startOperator(k, nil)
		o.reconciler.Comparisons = rate.NewLimiter(0, 0)
		o.reconcileOnce()
		Expect(o.count("RepairingDrift")).To(Equal(1))
	})

	It("read no unchanged StatefulSet, which the cache has, and a changed one once", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		requests := o.countRequests("*v1.StatefulSet/" + k.Etcd.Name)
		o.run()
		Expect(requests.reads).To(BeZero())

		set := &appsv1.StatefulSet{}
		must(k.Client(nil).Get(context.Background(), k.Etcd, set))
		set.Spec.Template.Spec.PriorityClassName = "other"
		set.Generation++
		must(k.Client(nil).Update(context.Background(), set))
		o.reconcileOnce()
		Expect(o.count("RepairingDrift")).To(Equal(1))
		Expect(requests.reads).To(Equal(1))
	})

	It("are not repeated for an object with a manifest that kubectl applied, which only the API server returns", func() {
		version := func(annotations map[string]string) string {
			return etcd.VersionOf(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Generation: 1, Annotations: annotations}})
		}
		cached := version(map[string]string{corev1.LastAppliedConfigAnnotation: "", "note": "x"})
		Expect(version(map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "note": "x"})).To(Equal(cached))
		Expect(version(map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "note": "y"})).NotTo(Equal(cached))
	})

	It("are not repeated for the objects of 10,000 Etcds", func() {
		Expect(etcd.KeepsComparisons(8 * 10000)).To(BeTrue())
	})
})

var _ = Describe("Requests of the operator while another writer changes an object", func() {
	It("are bounded for each pause between two repairs, however often the object changes", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		o.run()
		requests := o.countRequests("*v1.Service/" + k.Etcd.Name + "-client")

		began := k.Clock.Now()
		for second := range 299 {
			k.Clock.SetTime(began.Add(time.Duration(second) * time.Second))
			selector(k, fmt.Sprint("other-", second))
			o.reconcileOnce()
			k.Tick()
		}
		Expect(o.count("RepairingDrift")).To(Equal(1))
		Expect(o.count("DriftNotRepaired")).To(Equal(1))
		Expect(requests.dryRuns).To(BeNumerically("<=", 3), "dry runs: one before the repair, and two after it")
		Expect(requests.reads).To(BeNumerically("<=", 3), "reads: as many")
		Expect(requests.reads).To(BeNumerically(">=", 2), "the object is read again after the repair")

		By("repairing it when the pause has ended, and when the other writer has stopped")
		o.run()
		Expect(selector(k, "")).NotTo(HaveKey("x"))
		Expect(o.count("RepairingDrift")).To(Equal(2))
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Reason", "Reconciled"))))
	})

	It("do not repair an object that another writer has corrected since it was read", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		o.run()
		rendered := selector(k, "")
		selector(k, "other")
		requests := o.countRequests("*v1.Service/" + k.Etcd.Name + "-client")
		requests.beforeDryRun = func() {
			service := &corev1.Service{}
			Expect(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: k.Etcd.Name + "-client"}, service)).To(Succeed())
			service.Spec.Selector = rendered
			Expect(k.Client(nil).Update(context.Background(), service)).To(Succeed())
		}
		o.reconcileOnce()
		Expect(requests.dryRuns).To(Equal(1))
		Expect(o.err).NotTo(HaveOccurred())
		o.run()
		Expect(o.count("RepairingDrift")).To(BeZero())
	})

	It("are bounded too for an object that another writer deletes", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		o.run()
		requests := o.countRequests("*v1.Lease/" + k.Etcd.Name + "-0")
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name = k.Etcd.Namespace, k.Etcd.Name+"-0"

		began := k.Clock.Now()
		for second := range 299 {
			k.Clock.SetTime(began.Add(time.Duration(second) * time.Second))
			Expect(client.IgnoreNotFound(k.Client(nil).Delete(context.Background(), lease))).To(Succeed())
			o.reconcileOnce()
			k.Tick()
		}
		Expect(o.count("RepairingDrift")).To(Equal(1))
		Expect(o.count("DriftNotRepaired")).To(Equal(1))
		Expect(requests.reads).To(BeNumerically("<=", 3))
		o.run()
		Expect(o.count("RepairingDrift")).To(Equal(2))
	})
})
