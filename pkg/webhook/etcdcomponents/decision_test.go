// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// The table of test/integration/protection covers the rights of each kind of user on each kind of object, on a real API
// server. These tests cover the remaining details.
var _ = Describe("The decision", func() {
	const long = "an-etcd-with-a-name-that-is-too-long-for-the-label-of-a-secrets-manager"

	accounts := etcdcomponents.AccountsFor(configv1alpha1.EtcdComponentProtectionWebhookConfiguration{
		ServiceAccountInfo:    &configv1alpha1.ServiceAccountInfo{Namespace: "ours", Name: "operator"},
		ExemptServiceAccounts: []string{"system:serviceaccount:garden:grm"},
		ExemptUsers:           []string{"exempt"},
		Drainers:              []string{"drainer"},
	})

	labelled := func(resource string, labels map[string]string) etcdcomponents.Request {
		request := etcdcomponents.Request{User: authenticationv1.UserInfo{Username: "jane"}, Deletion: true, Resource: resource, Namespace: "test-ns"}
		request.Before.Name, request.Before.Labels = "object", labels

		return request
	}
	decide := func(request etcdcomponents.Request, options ...func(*druidv1alpha1.Etcd)) bool {
		allowed, reason := etcdcomponents.Decide(accounts, request, []druidv1alpha1.Etcd{*fixture.Etcd(fixture.WithName("other")), *fixture.Etcd(options...)})
		Expect(reason).NotTo(BeEmpty())

		return allowed
	}
	isPartOfEtcd := map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test"}

	DescribeTable("trusts",
		func(username string, allowed bool, groups ...string) {
			request := labelled("configmaps", isPartOfEtcd)
			request.User = authenticationv1.UserInfo{Username: username, Groups: groups}
			Expect(decide(request)).To(Equal(allowed))
		},
		Entry("the operator", "system:serviceaccount:ours:operator", true),
		Entry("an exempt account", "system:serviceaccount:garden:grm", true),
		Entry("an exempt user", "exempt", true),
		Entry("kubelets by their group", "system:node:n1", true, "system:nodes"),
		Entry("no user who only has the name of a node", "system:node:n1", false),
		Entry("the controllers of the cluster by their group", "system:serviceaccount:kube-system:namespace-controller", true, "system:serviceaccounts", "system:serviceaccounts:kube-system"),
		Entry("the control plane where its controllers have no accounts", "system:kube-controller-manager", true),
		Entry("no administrator", "admin", false, "system:masters"),
		Entry("no drainer for objects other than pods", "drainer", false),
		Entry("no account of the same name elsewhere", "system:serviceaccount:theirs:operator", false),
	)

	It("knows the operator by the deprecated form of its configuration too", func() {
		older := etcdcomponents.AccountsFor(configv1alpha1.EtcdComponentProtectionWebhookConfiguration{ReconcilerServiceAccountFQDN: new("system:serviceaccount:garden:etcd-druid")})
		Expect(older.IsTrusted(authenticationv1.UserInfo{Username: "system:serviceaccount:garden:etcd-druid"})).To(BeTrue())
	})

	DescribeTable("recognizes the objects of an Etcd",
		func(request etcdcomponents.Request, allowed bool, options ...func(*druidv1alpha1.Etcd)) {
			Expect(decide(request, options...)).To(Equal(allowed))
		},
		Entry("by its labels", labelled("configmaps", isPartOfEtcd), false),
		Entry("not without such an Etcd", labelled("configmaps", isPartOfEtcd), true, fixture.WithName("another")),
		Entry("not by the name of the Etcd alone", labelled("configmaps", map[string]string{"app.kubernetes.io/part-of": "test"}), true),
		Entry("issued Secrets by the identity of the secrets manager", labelled("secrets", map[string]string{"managed-by": "secrets-manager", "manager-identity": "etcd-druid-test"}), false),
		Entry("issued Secrets of an Etcd with a long name", labelled("secrets", map[string]string{"managed-by": "secrets-manager", "manager-identity": "etcd-druid-an-etcd-with-a-name-that-is-too-long-for-th-a464ff3a"}), false, fixture.WithName(long)),
		Entry("not the Secrets of another Etcd whose name begins alike", labelled("secrets", map[string]string{"managed-by": "secrets-manager", "manager-identity": "etcd-druid-test-2"}), true),
		Entry("no member of a StatefulSet whose selector it does not understand", scaled("app in (a,b)"), true),
		Entry("the StatefulSet behind a scale by its selector", scaled("app.kubernetes.io/managed-by=etcd-druid,app.kubernetes.io/part-of=test"), false),
		Entry("older volume claims by their names", named("persistentvolumeclaims", "test-test-0"), false),
		Entry("older volume claims by the template that the spec names", named("persistentvolumeclaims", "main-etcd-test-2"), false, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.VolumeClaimTemplate = new("main-etcd") }),
		Entry("no volume claim of another StatefulSet whose name begins alike", named("persistentvolumeclaims", "test-test-db-0"), true),
		Entry("no other object by such a name", named("configmaps", "test-test-0"), true),
	)

	DescribeTable("allows changes of the objects that the manager of external members provides",
		func(resource string, allowed bool) {
			external := func(etcd *druidv1alpha1.Etcd) { etcd.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1"} }
			Expect(decide(labelled(resource, isPartOfEtcd), external)).To(Equal(allowed))
			Expect(decide(labelled(resource, isPartOfEtcd), fixture.WithAnnotation("druid.gardener.cloud/disable-etcd-runtime-component-creation", ""))).To(Equal(allowed))
			Expect(decide(labelled(resource, isPartOfEtcd))).To(BeFalse())
		},
		Entry("leases", "leases", true),
		Entry("services", "services", true),
		Entry("accounts", "serviceaccounts", true),
		Entry("and not the StatefulSet", "statefulsets", false),
		Entry("and not the configuration", "configmaps", false),
	)

	It("states the remedy in a refusal", func() {
		_, reason := etcdcomponents.Decide(accounts, labelled("configmaps", isPartOfEtcd), []druidv1alpha1.Etcd{*fixture.Etcd()})
		Expect(strings.Fields(reason)).To(ContainElements("test-ns/test", "druid.gardener.cloud/disable-etcd-component-protection"))
	})
})

func named(resource, name string) etcdcomponents.Request {
	return etcdcomponents.Request{User: authenticationv1.UserInfo{Username: "jane"}, Deletion: true, Resource: resource, Before: etcdcomponents.Object{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

func scaled(selector string) etcdcomponents.Request {
	request := named("statefulsets/scale", "test")
	request.Deletion, request.Before.Status.Selector = false, selector

	return request
}
