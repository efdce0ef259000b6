// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// These tests restart the operator or change its configuration. Therefore no other test may run at the same time. They share their Etcds.
var _ = Describe("The operator", Serial, Ordered, SpecPriority(10), func() {
	var (
		ns       *framework.TestNamespace
		operator *framework.Operator
		// running are Etcds that become ready.
		running []*druidv1alpha1.Etcd
	)

	BeforeAll(func(ctx SpecContext) {
		var err error

		operator, err = seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())

		ns = seed.NewNamespace(ctx, "operator")
		running = []*druidv1alpha1.Etcd{fixture.Etcd(fixture.WithName("main")), fixture.Etcd(fixture.WithName("events"), withIdleStore(ns))}
	})

	AfterEach(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			ns.Report(ctx)
		}
	})

	It("completes creations and a deletion after a crash", func(ctx SpecContext) {
		deleted := fixture.Etcd(fixture.WithName("deleted"))
		ns.Create(ctx, deleted)
		eventuallyManagedResource(ctx, ns)

		for _, etcd := range running {
			ns.Create(ctx, etcd)
		}

		Expect(ns.Client.Delete(ctx, deleted)).To(Succeed())
		operator.Kill(ctx)
		operator.EventuallyLeading(ctx)

		Eventually(func() bool { return ns.IsGone(ctx, deleted) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)

		for _, etcd := range running {
			ns.EventuallyReady(ctx, etcd)
		}
	}, SpecTimeout(specTimeout))

	It("does not restart pods when it starts with other default images, and uses these images for new Etcds", framework.NeedsSeed("reads the audit log and changes the image vector"), func(ctx SpecContext) {
		eventuallyIdle(ctx, ns, running[0], running[1])
		pods, resources := []corev1.Pod{}, []resourcesv1alpha1.ManagedResource{}
		for _, etcd := range running {
			pods = append(pods, *ns.Pod(ctx, etcd))
			resources = append(resources, *managedResource(ctx, ns, etcd))
		}

		newer := "seed.local/etcd-wrapper:newer" // no node has this image, so a restarted pod would not become ready

		DeferCleanup(operator.Restart)
		DeferCleanup(operator.OverrideImage(ctx, imageName("etcd-wrapper"), newer))

		user := operator.User(ctx)
		window := seed.OpenAuditWindow()
		operator.Restart(ctx)

		By("using the new image for a new Etcd")
		another := fixture.Etcd(fixture.WithName("another"))
		ns.Create(ctx, another)
		ns.Eventually(ctx, another, func(g Gomega) {
			statefulSet := &appsv1.StatefulSet{}
			g.Expect(seed.Client.Get(ctx, client.ObjectKeyFromObject(another), statefulSet)).To(Succeed())
			g.Expect(statefulSet.Spec.Template.Spec.Containers).To(ContainElement(And(HaveField("Name", "etcd"), HaveField("Image", newer))))
		})

		By("changing no other Etcd")
		Consistently(func(g Gomega) {
			for i, etcd := range running {
				g.Expect(managedResource(ctx, ns, etcd)).To(And(HaveField("Spec", resources[i].Spec), HaveField("Annotations", resources[i].Annotations)))

				pod := ns.Pod(ctx, etcd)
				g.Expect(pod.UID).To(Equal(pods[i].UID))
				g.Expect(pod.Status.ContainerStatuses).To(HaveEach(HaveField("RestartCount", BeZero())))
			}

			writes, err := window.Writes(user)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(slices.DeleteFunc(writes, func(write framework.Write) bool {
				return write.Resource != "managedresources" || write.Name == "druid-another"
			})).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(20*time.Second).WithPolling(2*time.Second).Should(Succeed(), ns.State)

		for _, etcd := range running {
			Expect(seed.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			Expect(framework.CheckReady(etcd)).To(Succeed())
		}
	}, SpecTimeout(specTimeout))

	It("changes one of two Etcds to default images that do not start, and returns to the earlier ones", framework.NeedsSeed("changes the image vector"), func(ctx SpecContext) {
		pair := []*druidv1alpha1.Etcd{fixture.Etcd(fixture.WithName("first")), fixture.Etcd(fixture.WithName("second"))}
		ns.Create(ctx, pair[0], pair[1])

		for _, etcd := range pair {
			ns.EventuallyReady(ctx, etcd)
		}

		image := func(g Gomega, etcd *druidv1alpha1.Etcd) string {
			statefulSet := &appsv1.StatefulSet{}
			g.Expect(seed.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())

			return statefulSet.Spec.Template.Spec.Containers[0].Image
		}
		earlier, broken := image(Default, pair[0]), "seed.local/etcd-wrapper:broken"

		undo := operator.OverrideImage(ctx, imageName("etcd-wrapper"), broken)

		DeferCleanup(operator.Restart)
		DeferCleanup(undo)
		operator.Restart(ctx)

		for _, etcd := range pair {
			ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, operationAnnotation, "reconcile")
			})
		}

		var canary, other *druidv1alpha1.Etcd

		ns.Eventually(ctx, pair[0], func(g Gomega) {
			canary, other = pair[0], pair[1]
			if image(g, other) == broken {
				canary, other = other, canary
			}

			g.Expect(image(g, canary)).To(Equal(broken))
		})

		Eventually(operator.MissingMetrics).WithContext(ctx).WithArguments("rollouts").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeEmpty())

		By("completing the generation of the other one with the earlier image")
		ns.EventuallyReady(ctx, other)
		Consistently(func(g Gomega) {
			g.Expect(image(g, other)).To(Equal(earlier))
			g.Expect(seed.Client.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
			g.Expect(framework.CheckReady(other)).To(Succeed())
			g.Expect(framework.Condition(other, "DefaultsUpdated")).To(HaveField("Reason", "WaitingForCanary"))
		}).WithContext(ctx).WithTimeout(20*time.Second).WithPolling(2*time.Second).Should(Succeed(), ns.State)

		By("returning to the earlier image with the earlier operator, without another request")
		undo(ctx)
		operator.Restart(ctx)
		ns.Eventually(ctx, canary, func(g Gomega) { g.Expect(image(g, canary)).To(Equal(earlier)) })
		ns.EventuallyReady(ctx, canary)
		Expect(image(Default, other)).To(Equal(earlier))
	}, SpecTimeout(specTimeout))
})

// The operator may still write to the namespaces of earlier tests. The test ignores these writes. No other test runs at the same time, because a
// member that does not respond in time at a high load changes a condition. `make test` measures the writes for ten idle Etcds.
var _ = Describe("The operator", Label("long"), Serial, func() {
	It("writes only its own Leases while nothing changes", framework.NeedsSeed("reads the audit log"), func(ctx SpecContext) {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		ns, withEtcds := seed.NewNamespace(ctx, "idle"), sets.New[string]()
		addNamespacesWithEtcds(ctx, ns, withEtcds)
		main, events := fixture.Etcd(fixture.WithName("main")), fixture.Etcd(fixture.WithName("events"), withIdleStore(ns))
		for _, etcd := range []*druidv1alpha1.Etcd{main, events} {
			ns.Create(ctx, etcd)
		}
		eventuallyIdle(ctx, ns, main, events)

		By("creating Etcds that need no action of the operator")
		for reason, etcd := range map[string]*druidv1alpha1.Etcd{
			"Reconciled": fixture.Etcd(fixture.WithName("hibernated"), fixture.WithReplicas(0)),
			"Waiting":    fixture.Etcd(fixture.WithName("waiting"), fixture.WithClientTLS()),
			"InvalidSpec": fixture.Etcd(fixture.WithName("rejected"), func(etcd *druidv1alpha1.Etcd) {
				etcd.Spec.SchedulingConstraints.Tolerations = []corev1.Toleration{{Key: "key", Operator: "Perhaps"}}
			}),
		} {
			ns.Create(ctx, etcd)
			ns.Eventually(ctx, etcd, func(g Gomega) {
				g.Expect(framework.Condition(etcd, "Progressing").Reason).To(Equal(reason))
				g.Expect(framework.Condition(etcd, "SecretsAvailable").Status).NotTo(BeEmpty())
			})
		}

		By("reading the audit log of two minutes")
		user, window := operator.User(ctx), seed.OpenAuditWindow()
		Consistently(func(g Gomega) {
			addNamespacesWithEtcds(ctx, ns, withEtcds)
			writes, err := window.Writes(user)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(slices.DeleteFunc(writes, func(write framework.Write) bool {
				return isOwnObject(write) || isByOtherTest(ctx, ns, withEtcds, write)
			})).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(2*time.Minute).WithPolling(5*time.Second).Should(Succeed(), ns.State)

		for _, lease := range framework.Leases {
			Expect(window.Writes(user)).To(ContainElement(And(HaveField("Name", lease), HaveField("Code", 200))), "the operator renews its Leases, and the audit log records it")
		}
	}, SpecTimeout(specTimeout))
})

// eventuallyIdle writes to both Etcds. It waits until the snapshots of the one with a store contain all writes, and the operator has recorded the revisions.
// The operator then has nothing to write.
func eventuallyIdle(ctx context.Context, ns *framework.TestNamespace, withoutStore, withStore *druidv1alpha1.Etcd) {
	GinkgoHelper()
	written := map[*druidv1alpha1.Etcd]int64{}
	for _, etcd := range []*druidv1alpha1.Etcd{withoutStore, withStore} {
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 5)
		written[etcd] = writeLog.Revision
	}
	ns.Eventually(ctx, withStore, func(g Gomega) {
		g.Expect(framework.Condition(withStore, "BackupReady").Status).To(BeEquivalentTo("True"))
		g.Expect(max(lastRevision(ctx, ns, withStore.Name+"-full-snap"), lastRevision(ctx, ns, withStore.Name+"-delta-snap"))).To(BeNumerically(">=", written[withStore]))
	})
	for etcd, revision := range written {
		eventuallyRecorded(ctx, ns, etcd, revision)
	}
}

// withIdleStore configures a Local store for which no full snapshot is due during the tests.
func withIdleStore(ns *framework.TestNamespace) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) {
		withLocalStore(ns)(etcd)
		etcd.Spec.Backup.FullSnapshotSchedule = new("0 0 1 1 *")
	}
}

// eventuallyManagedResource waits until the namespace has a ManagedResource.
func eventuallyManagedResource(ctx context.Context, ns *framework.TestNamespace) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		resources := &resourcesv1alpha1.ManagedResourceList{}
		g.Expect(ns.Client.List(ctx, resources, client.InNamespace(ns.Name))).To(Succeed())
		g.Expect(resources.Items).NotTo(BeEmpty())
	}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(100*time.Millisecond).Should(Succeed(), ns.State)
}

// eventuallyRecorded waits until the operator has recorded the revision. The operator records a higher revision at most every five minutes.
// Therefore the function sets the time of the last record back.
func eventuallyRecorded(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, revision int64) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		mr := managedResource(ctx, ns, etcd)
		recorded, err := state.Decode(mr.Annotations)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(recorded.Evidence).NotTo(BeNil())
		if recorded.Evidence.HighestRevision < revision && time.Since(recorded.Evidence.At) < evidence.Period {
			before := mr.DeepCopy()
			mr.Annotations, err = state.Update(mr.Annotations, func(s *state.State) { s.Evidence.At = s.Evidence.At.Add(-evidence.Period) })
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ns.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))).To(Succeed())
		}
		g.Expect(recorded.Evidence.HighestRevision).To(BeNumerically(">=", revision))
	}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
}

// isByOtherTest returns true for a write to another namespace that has or had Etcds, or that is terminating or deleted. For example, a snapshot
// that is due causes such a write. A test deletes its Etcds before their namespace.
func isByOtherTest(ctx context.Context, ns *framework.TestNamespace, withEtcds sets.Set[string], write framework.Write) bool {
	GinkgoHelper()
	if write.Namespace == "" || write.Namespace == ns.Name {
		return false
	}
	if withEtcds.Has(write.Namespace) {
		return true
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: write.Namespace}}

	return ns.IsGone(ctx, namespace) || namespace.DeletionTimestamp != nil
}

// addNamespacesWithEtcds adds the namespaces that have Etcds now.
func addNamespacesWithEtcds(ctx context.Context, ns *framework.TestNamespace, withEtcds sets.Set[string]) {
	GinkgoHelper()
	etcds := &druidv1alpha1.EtcdList{}
	Expect(ns.Client.List(ctx, etcds)).To(Succeed())
	for _, etcd := range etcds.Items {
		withEtcds.Insert(etcd.Namespace)
	}
}

// isOwnObject returns true for a write to a Lease of the operator or to its ValidatingWebhookConfiguration. The operator checks
// the latter every five minutes.
func isOwnObject(write framework.Write) bool {
	return write.Matches("leases", framework.Leases...) || write.Matches("validatingwebhookconfigurations", "gardener-extension-etcd-druid")
}
