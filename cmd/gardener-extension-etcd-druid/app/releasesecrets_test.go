// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
)

var _ = Describe("The command release-secrets", func() {
	const finalizer = "druid.gardener.cloud/etcd-druid"

	var (
		readNamespace error
		c             client.Client
	)
	deployment := client.ObjectKey{Namespace: "operator", Name: "missing"}
	secret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "store", Finalizers: []string{finalizer}}}
	}
	finalizers := func(ctx context.Context) []string {
		GinkgoHelper()
		found := secret()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(found), found)).To(Succeed())

		return found.Finalizers
	}

	BeforeEach(func() {
		readNamespace = nil
		deleted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "deleted", Finalizers: []string{"kubernetes"}, DeletionTimestamp: new(metav1.Now())}}
		c = fake.NewClientBuilder().WithScheme(app.NewScheme()).
			WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, deleted, secret()).
			WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, isNamespace := obj.(*corev1.Namespace); isNamespace && readNamespace != nil {
					return readNamespace
				}

				return c.Get(ctx, key, obj, opts...)
			}}).Build()
	})

	It("fails if a watched namespace cannot be read, so that helm keeps the operator and its rights", func(ctx SpecContext) {
		readNamespace = apierrors.NewTimeoutError("etcd does not answer", 1)
		Expect(app.ReleaseSecrets(ctx, c, deployment, []string{"team-a"})).To(MatchError(And(ContainSubstring("reading namespace team-a"), ContainSubstring("etcd does not answer"))))
		Expect(finalizers(ctx)).To(ConsistOf(finalizer))
	})

	It("succeeds if no watched namespace is left", func(ctx SpecContext) {
		Expect(app.ReleaseSecrets(ctx, c, deployment, []string{"deleted", "missing"})).To(Succeed())
		Expect(finalizers(ctx)).To(ConsistOf(finalizer), "namespaces that are not watched are not touched")
	})

	It("releases the Secrets of the watched namespaces that are left", func(ctx SpecContext) {
		Expect(app.ReleaseSecrets(ctx, c, deployment, []string{"deleted", "team-a"})).To(Succeed())
		Expect(finalizers(ctx)).To(BeEmpty())
	})
})
