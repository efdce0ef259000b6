// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// etcdOf is an Etcd in the namespace default, whose members have these statuses.
func etcdOf(replicas int32, statuses ...druidv1alpha1.EtcdMemberConditionStatus) *druidv1alpha1.Etcd {
	etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace("default"), fixture.WithReplicas(replicas))
	for i, status := range statuses {
		etcd.Status.Members = append(etcd.Status.Members, druidv1alpha1.EtcdMemberStatus{Name: "main-" + string(rune('0'+i)), Status: status})
	}

	return etcd
}

// managedResourceOf has a record and a record of the store.
func managedResourceOf(record string) *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "druid-main", Annotations: map[string]string{
		"etcd-druid.extensions.gardener.cloud/state": record, "etcd-druid.extensions.gardener.cloud/store": `{"provider":"Local"}`,
	}}}
}

var _ = Describe("The verbs of an Etcd", func() {
	ready, notReady := druidv1alpha1.EtcdMemberStatusReady, druidv1alpha1.EtcdMemberStatusNotReady

	DescribeTable("write the annotations", func(ctx SpecContext, expected map[string]string, args ...string) {
		etcd := etcdOf(1, ready)
		server := newFakeServer(etcd)
		code, text := server.run(ctx, args...)
		Expect(code).To(Equal(0), text)
		Expect(text).To(ContainSubstring("kubectl etcd "))
		Expect(server.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Annotations).To(Equal(expected))
		Expect(server.writes).To(HaveLen(1), "one write")
	},
		Entry("to start a rotation", map[string]string{"druid.gardener.cloud/rotate-ca": "start"}, "rotate-ca", "main"),
		Entry("to complete a rotation", map[string]string{"druid.gardener.cloud/rotate-ca": "complete"}, "rotate-ca", "main", "--complete"),
		Entry("to restore", map[string]string{"druid.gardener.cloud/restore": "from-store"}, "restore", "main"),
		Entry("to restore without verification", map[string]string{"druid.gardener.cloud/restore": "from-store-unverified"}, "restore", "--unverified"),
		Entry("to restore an older revision", map[string]string{"druid.gardener.cloud/restore": "from-store", "druid.gardener.cloud/accept-revision": "42"}, "restore", "main", "--accept-revision=42"),
		Entry("to accept a revision", map[string]string{"druid.gardener.cloud/accept-revision": "42"}, "accept-revision", "main", "--revision=42"),
		Entry("to skip final snapshots", map[string]string{"druid.gardener.cloud/skip-final-snapshot": ""}, "skip-final-snapshot", "main"),
		Entry("to disable peer TLS", map[string]string{"druid.gardener.cloud/peer-tls": "off"}, "disable-peer-tls", "main"),
		Entry("to reconcile", map[string]string{"druid.gardener.cloud/operation": "reconcile"}, "reconcile", "main"),
	)

	DescribeTable("reject wrong flags", func(ctx SpecContext, message string, args ...string) {
		server := newFakeServer(etcdOf(3, ready, ready, ready))
		code, text := server.run(ctx, args...)
		Expect(code).To(Equal(2), text)
		Expect(text).To(ContainSubstring(message))
		Expect(server.writes).To(BeEmpty())
	},
		Entry("a revision that is not compared", "--unverified does not compare revisions", "restore", "main", "--unverified", "--accept-revision=3"),
		Entry("no revision", "--revision is required", "accept-revision", "main"),
		Entry("no member", "--member is -1, and has to be an ordinal from 0 to 2", "replace-volume", "main"),
		Entry("a member that does not exist", "--member is 3", "replace-volume", "main", "--member=3"),
		Entry("a list and a name", "-A and -l list Etcds", "status", "main", "-A"),
		Entry("an invalid selector", "--selector: ", "status", "-l", "=="),
	)

	DescribeTable("recover a cluster whose quorum is lost forever", func(ctx SpecContext, expected string, code int, output string, args ...string) {
		etcd := etcdOf(3, notReady, notReady, notReady)
		etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "QuorumRecoverable", Status: "False", Reason: "ChoiceRequired",
			Message: "Choose. members (token members-0123abcd): the data. store (not possible: it is empty): the snapshots"}}
		server := newFakeServer(etcd)
		got, text := server.run(ctx, args...)
		Expect(got).To(Equal(code), text)
		Expect(text).To(And(ContainSubstring("members (token members-0123abcd): the data"), ContainSubstring(output)))
		Expect(server.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Annotations["druid.gardener.cloud/recover"]).To(Equal(expected))
	},
		Entry("from its members", "members-0123abcd", 0, "Requested", "recover", "main", "--option=members"),
		Entry("not without an answer", "", 0, "Recover from (members, or nothing to stop)", "recover", "main"),
		Entry("not from data that is not possible", "", 2, `the possible options are ["members"]`, "recover", "main", "--option=store"),
	)

	It("recover no cluster whose recovery policy forbids it", func(ctx SpecContext) {
		etcd := etcdOf(3, notReady, notReady, notReady)
		etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "QuorumRecoverable", Status: "False", Reason: "RecoveryForbidden", Message: "The recovery policy is Never. members: the data"}}
		code, text := newFakeServer(etcd).run(ctx, "recover", "main")
		Expect(code).To(Equal(1))
		Expect(text).To(ContainSubstring("set spec.recoveryPolicy to Ask"))
	})

	It("recover no other cluster", func(ctx SpecContext) {
		code, text := newFakeServer(etcdOf(3, ready, ready, ready)).run(ctx, "recover")
		Expect(code).To(Equal(1))
		Expect(text).To(ContainSubstring("its quorum is not lost forever"))
	})

	It("require final snapshots again", func(ctx SpecContext) {
		etcd := etcdOf(1, ready)
		etcd.Annotations = map[string]string{"druid.gardener.cloud/skip-final-snapshot": ""}
		server := newFakeServer(etcd)
		server.expectSuccess(ctx, "require-final-snapshot")
		Expect(server.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Annotations).To(BeEmpty())
	})

	It("hibernate a cluster and wake it up with the same size", func(ctx SpecContext) {
		etcd := etcdOf(3, ready, ready, ready)
		server := newFakeServer(etcd, managedResourceOf(`{"version":1,"size":3}`))
		code, text := server.run(ctx, "hibernate")
		Expect(code).To(Equal(0), text)
		Expect(server.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Spec.Replicas).To(BeZero())
		Expect(etcd.Annotations).To(HaveKeyWithValue("druid.gardener.cloud/operation", "reconcile"))
		Expect(server.writes).To(HaveLen(1), "a generation without its request would wait")

		code, text = server.run(ctx, "wake")
		Expect(code).To(Equal(0), text)
		Expect(server.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Spec.Replicas).To(BeEquivalentTo(3))

		code, text = server.run(ctx, "wake")
		Expect(code).To(Equal(1))
		Expect(text).To(ContainSubstring("is not hibernated: spec.replicas is 3"))
	})

	It("wake up a cluster without a record only with a size", func(ctx SpecContext) {
		etcd := etcdOf(0)
		server := newFakeServer(etcd)
		code, text := server.run(ctx, "wake")
		Expect(code).To(Equal(2))
		Expect(text).To(ContainSubstring("set --replicas"))
		server.expectSuccess(ctx, "wake", "--replicas=1")
		Expect(server.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Spec.Replicas).To(BeEquivalentTo(1))
	})

	It("release the store while the protection is disabled, and enable it again", func(ctx SpecContext) {
		etcd, resource := etcdOf(1, ready), managedResourceOf(`{"version":1}`)
		server := newFakeServer(etcd, resource)
		rejections := 1 // until the API server observes the annotation
		server.forbidden = func(verb, path string) bool {
			if verb == "PATCH" && path == "managedresources/druid-main" && rejections > 0 {
				rejections--

				return true
			}

			return false
		}
		code, text := server.run(ctx, "release-store")
		Expect(code).To(Equal(0), text)
		Expect(server.Get(ctx, client.ObjectKeyFromObject(resource), resource)).To(Succeed())
		Expect(resource.Annotations).To(And(HaveKey("etcd-druid.extensions.gardener.cloud/state"), Not(HaveKey("etcd-druid.extensions.gardener.cloud/store"))))
		Expect(server.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Annotations).To(BeEmpty())
		Expect(server.writes).To(HaveExactElements(
			And(HavePrefix("PATCH etcds/main "), ContainSubstring("disable-etcd-component-protection")), HavePrefix("PATCH managedresources/druid-main "),
			And(HavePrefix("PATCH etcds/main "), ContainSubstring("null"))))
	})

	It("give a member a new volume", func(ctx SpecContext) {
		etcd := etcdOf(3, ready, ready, notReady)
		var objects []client.Object
		for _, name := range []string{"main-main-1", "main-main-2"} {
			objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
		}
		server := newFakeServer(append(objects, etcd, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "main-2"}})...)
		code, text := server.run(ctx, "replace-volume", "--member=2")
		Expect(code).To(Equal(0), text)
		Expect(server.writes).To(HaveExactElements(
			HavePrefix("PATCH etcds/main "), HavePrefix("DELETE persistentvolumeclaims/main-main-2 "), HavePrefix("DELETE pods/main-2 "), HavePrefix("PATCH etcds/main ")))
		claims := &corev1.PersistentVolumeClaimList{}
		Expect(server.List(ctx, claims)).To(Succeed())
		Expect(claims.Items).To(HaveLen(1))
	})

	It("keep the protection of a user disabled", func(ctx SpecContext) {
		etcd := etcdOf(3, ready, ready, notReady)
		etcd.Annotations = map[string]string{"druid.gardener.cloud/disable-etcd-component-protection": ""}
		server := newFakeServer(etcd)
		server.expectSuccess(ctx, "replace-volume", "--member=2")
		Expect(server.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Annotations).To(HaveLen(1))
	})

	DescribeTable("delete no volume that may be needed", func(ctx SpecContext, etcd *druidv1alpha1.Etcd, message string) {
		server := newFakeServer(etcd)
		code, text := server.run(ctx, "replace-volume", "--member=0")
		Expect(code).To(Equal(1), text)
		Expect(text).To(ContainSubstring(message))
		Expect(server.writes).To(BeEmpty())
	},
		Entry("that of a single member", etcdOf(1, notReady), "the only copy of the data would be deleted"),
		Entry("while another member is not healthy", etcdOf(3, notReady, ready, notReady), "member main-2 is not healthy"),
		Entry("while another member is not known", etcdOf(3, notReady, ready), "member main-2 is not healthy"),
	)
})

var _ = Describe("status", func() {
	withCondition := func(etcd *druidv1alpha1.Etcd, condition druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus, message string) {
		etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{Type: condition, Status: status, Reason: "Reason", Message: message})
	}
	fleet := func() *fakeServer {
		healthy := etcdOf(1, druidv1alpha1.EtcdMemberStatusReady)
		healthy.Labels = map[string]string{"role": "main"}
		withCondition(healthy, druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTrue, "")
		withCondition(healthy, druidv1alpha1.ConditionTypeReconciled, druidv1alpha1.ConditionTrue, "The cluster is as the spec describes it")
		unhealthy := etcdOf(3, druidv1alpha1.EtcdMemberStatusReady)
		unhealthy.Namespace = "another"
		withCondition(unhealthy, druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionFalse, "")
		withCondition(unhealthy, druidv1alpha1.ConditionTypeReconciled, druidv1alpha1.ConditionFalse, strings.Repeat("a long reason ", 10))

		return newFakeServer(healthy, unhealthy)
	}

	It("lists the Etcds of all namespaces", func(ctx SpecContext) {
		code, text := fleet().run(ctx, "status", "-A")
		Expect(code).To(Equal(3))
		lines := strings.Split(strings.TrimSpace(text), "\n")
		Expect(lines).To(HaveExactElements(
			MatchRegexp(`^NAMESPACE +NAME +STATE +MEMBERS +VERSION +BACKUP +AGE +STATUS$`),
			MatchRegexp(`^another +main +NotReady +1/3 .* Ready: a long reason .*…$`),
			MatchRegexp(`^default +main +Ready +1/1 .* The cluster is as the spec describes it$`),
			"",
			"2 Etcds, 1 of them are not healthy",
		))
	})

	It("lists the Etcds with labels, in the namespace", func(ctx SpecContext) {
		server := fleet()
		code, text := server.run(ctx, "status", "-l", "role=main")
		Expect(code).To(Equal(0), text)
		Expect(text).To(And(ContainSubstring("default"), Not(ContainSubstring("another"))))
		code, text = server.run(ctx, "status", "-l", "role=main", "-n", "another")
		Expect(code).To(Equal(0))
		Expect(text).To(Equal("There are no Etcds.\n"))
	})

	It("lists them as JSON, with the complete message", func(ctx SpecContext) {
		code, text := fleet().run(ctx, "status", "-A", "-o", "json")
		Expect(code).To(Equal(3))
		Expect(text).To(And(ContainSubstring(`"state": "NotReady"`), ContainSubstring(strings.Repeat("a long reason ", 10))))
	})

	It("exits with 3 for the screen of a cluster that is not healthy", func(ctx SpecContext) {
		code, text := fleet().run(ctx, "status", "main", "-n", "another")
		Expect(code).To(Equal(3), text)
		Expect(text).To(ContainSubstring("NotReady"))
	})

	It("repeats the screen until it is interrupted", func(ctx SpecContext) {
		ctx2, cancel := interruptible(ctx)
		server := fleet()
		lists := 0
		server.forbidden = func(_, path string) bool {
			if path == "etcds" {
				if lists++; lists == 2 {
					cancel()
				}
			}

			return false
		}
		code, text := server.run(ctx2, "status", "-A", "--watch")
		Expect(code).To(Equal(3))
		Expect(lists).To(Equal(2))
		Expect(strings.Count(text, "\x1b[H\x1b[2J")).To(BeNumerically(">=", 1))
		Expect(text).To(ContainSubstring("2 Etcds, 1 of them are not healthy"))
	})
})
