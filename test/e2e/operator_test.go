// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"
	"time"

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

// This test changes the configuration of the operator. Therefore no other test may run at the same time.
var _ = Describe("The operator", Serial, SpecPriority(10), func() {
	It("changes one of two Etcds to default images that do not start, and returns to the earlier ones", framework.NeedsSeed("changes the image vector"), func(ctx SpecContext) {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		ns := seed.NewNamespace(ctx, "operator")
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
		// Within 20 seconds the kubelet reports more than one failed pull of the canary. Each report triggers a decision about the other Etcd.
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
		main, events := fixture.Etcd(fixture.WithName("main")), fixture.Etcd(fixture.WithName("events"), withLocalStore(ns))
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
				g.Expect(framework.Condition(etcd, "Reconciled").Reason).To(Equal(reason))
				g.Expect(framework.Condition(etcd, "SecretsValid").Status).NotTo(BeEmpty())
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
