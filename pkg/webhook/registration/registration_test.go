// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"testing"

	extensionswebhookcmd "github.com/gardener/gardener/extensions/pkg/webhook/cmd"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/registration"
)

func TestRegistration(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "registration Suite")
}

var _ = Describe("SecretPath", func() {
	options := registration.Options{Name: "operator", Server: &extensionswebhookcmd.ServerConfig{Namespace: "garden"}}
	secret := func(data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "operator-webhook-path"}, Data: data}
	}

	It("is the same for all replicas, and another one in each cluster", func(ctx SpecContext) {
		c := fake.NewFakeClient()
		path, err := options.SecretPath(ctx, c, "/webhook")
		Expect(err).NotTo(HaveOccurred())
		Expect(path).To(MatchRegexp("^/webhook/[a-z2-7]{26}$"))
		Expect(options.SecretPath(ctx, c, "/webhook")).To(Equal(path))
		Expect(options.SecretPath(ctx, fake.NewFakeClient(), "/webhook")).NotTo(Equal(path))
	})

	It("is that of another replica that creates the Secret at the same time", func(ctx SpecContext) {
		c := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
			Expect(c.Create(ctx, secret(map[string][]byte{"path": []byte("other")}))).To(Succeed())

			return apierrors.NewAlreadyExists(corev1.Resource("secrets"), "operator-webhook-path")
		}})
		Expect(options.SecretPath(ctx, c, "/webhook")).To(Equal("/webhook/other"))
	})

	It("names a Secret without it, and the remedy", func(ctx SpecContext) {
		_, err := options.SecretPath(ctx, fake.NewFakeClient(secret(nil)), "/webhook")
		Expect(err).To(MatchError(And(ContainSubstring("garden/operator-webhook-path"), ContainSubstring("delete the Secret"))))
	})
})
