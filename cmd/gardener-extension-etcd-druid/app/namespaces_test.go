// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
)

var _ = Describe("The watched namespaces", func() {
	deleted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "deleted", Finalizers: []string{"kubernetes"}, DeletionTimestamp: new(metav1.Now())}}
	c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, deleted).Build()

	It("are those that exist and are not being deleted", func(ctx SpecContext) {
		Expect(app.ExistingNamespaces(ctx, c, []string{"team-a", "deleted", "missing"})).To(Equal([]string{"team-a"}))
		Expect(app.ExistingNamespaces(ctx, c, nil)).To(BeEmpty())
	})

	It("do not become all namespaces if none of them exists", func(ctx SpecContext) {
		_, err := app.ExistingNamespaces(ctx, c, []string{"deleted", "missing"})
		Expect(err).To(MatchError("watchNamespaces: none of the namespaces deleted, missing exists: create one, or change the list"))
	})
})
