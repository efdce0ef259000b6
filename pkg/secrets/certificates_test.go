// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("ConfigsFor", func() {
	var (
		ctx  = context.Background()
		both = fixture.TLSModes("client=provisioned,peer=provisioned")
	)

	names := func(configs []secrets.Config) []string {
		var names []string
		for _, config := range configs {
			names = append(names, config.Certificate.Name)
		}

		return names
	}
	find := func(etcd *druidv1alpha1.Etcd, name string) *secretsutils.CertificateSecretConfig {
		for _, config := range secrets.ConfigsFor(etcd, both, state.StageIdle) {
			if config.Certificate.Name == name {
				return config.Certificate
			}
		}

		return nil
	}

	DescribeTable("returns only the managed certificates",
		func(modes string, expected ...string) {
			Expect(names(secrets.ConfigsFor(testCase{}.etcd(), fixture.TLSModes(modes), state.StageIdle))).To(HaveExactElements(expected))
		},
		Entry("everything, CAs first", "client=provisioned,peer=provisioned", "main-client-ca", "main-peer-ca", "main-server", "main-client", "main-application", "main-peer"),
		Entry("for clients", "client=provisioned,peer=plaintext", "main-client-ca", "main-server", "main-client", "main-application"),
		Entry("for members", "client=given,peer=provisioned", "main-peer-ca", "main-peer"),
		Entry("nothing", "client=given,peer=disabled"),
	)

	It("covers every name under which clients, the sidecar and its proxying reach the members", func() {
		Expect(find(testCase{}.etcd(), "main-server").DNSNames).To(ConsistOf(
			"localhost", "main-local",
			"main-client", "main-client.garden", "main-client.garden.svc", "main-client.garden.svc.cluster.local",
			"*.main-peer", "*.main-peer.garden", "*.main-peer.garden.svc", "*.main-peer.garden.svc.cluster.local",
		))
	})

	It("covers every name under which members reach each other, and those that the spec adds", func() {
		etcd := testCase{}.etcd()
		etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: "main-0", URLs: []string{"https://main-0.example.com:2380", "https://192.0.2.1:2380"}}}
		etcd.Spec.ExternallyManagedMemberAddresses = []string{"198.51.100.1"}
		peer := find(etcd, "main-peer")
		Expect(peer.DNSNames).To(ConsistOf(
			"main-peer", "main-peer.garden", "main-peer.garden.svc", "main-peer.garden.svc.cluster.local",
			"*.main-peer", "*.main-peer.garden", "*.main-peer.garden.svc", "*.main-peer.garden.svc.cluster.local",
			"main-0.example.com",
		))
		Expect(peer.IPAddresses).To(HaveLen(4))
		Expect(peer.IPAddresses[2].String()).To(Equal("198.51.100.1"))
		Expect(peer.IPAddresses[3].String()).To(Equal("192.0.2.1"))
		Expect(find(etcd, "main-server").IPAddresses).To(HaveLen(3))
	})

	Describe("with Gardener's secrets manager", func() {
		var (
			c     client.Client
			clock *testclock.FakeClock
			began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
		)

		BeforeEach(func() {
			generateKey := secretsutils.GenerateKey
			secretsutils.GenerateKey = secretsutils.FakeGenerateKey
			DeferCleanup(func() { secretsutils.GenerateKey = generateKey })
			c = fake.NewClientBuilder().Build()
			clock = testclock.NewFakeClock(began)
		})

		generate := func(name string, rotation state.Rotation) (secretsmanager.Interface, map[string]*corev1.Secret) {
			etcd := testCase{}.etcd()
			etcd.Name = name
			times := map[string]time.Time{}
			configs := secrets.ConfigsFor(etcd, both, rotation.Stage)
			for _, config := range configs {
				if config.IsCA() && !rotation.StartedAt.IsZero() {
					times[config.Certificate.Name] = rotation.StartedAt
				}
			}
			manager, err := secretsmanager.New(ctx, logr.Discard(), clock, c, secrets.Identity(name), secretsmanager.WithNamespaces("garden"), secretsmanager.WithSecretNamesToTimes(times))
			Expect(err).NotTo(HaveOccurred())
			generated := map[string]*corev1.Secret{}
			for _, config := range configs {
				secret, err := manager.Generate(ctx, config.Certificate, config.Options...)
				Expect(err).NotTo(HaveOccurred())
				generated[strings.TrimPrefix(config.Certificate.Name, name+"-")] = secret
				if config.IsCA() {
					bundle, found := manager.Get(config.Certificate.Name)
					Expect(found).To(BeTrue())
					generated[strings.TrimPrefix(config.Certificate.Name, name+"-")+" bundle"] = bundle
				}
			}

			return manager, generated
		}
		secretNames := func() []string {
			list := &corev1.SecretList{}
			Expect(c.List(ctx, list)).To(Succeed())
			var names []string
			for _, secret := range list.Items {
				names = append(names, secret.Name)
			}
			slices.Sort(names)

			return names
		}
		parse := func(data []byte) []*x509.Certificate {
			var certificates []*x509.Certificate
			for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
				certificate, err := x509.ParseCertificate(block.Bytes)
				Expect(err).NotTo(HaveOccurred())
				certificates = append(certificates, certificate)
			}

			return certificates
		}
		issuer := func(secret *corev1.Secret) string { return parse(secret.Data["tls.crt"])[0].Issuer.CommonName }
		subjects := func(secret *corev1.Secret) []string {
			var names []string
			for _, certificate := range parse(secret.Data["bundle.crt"]) {
				names = append(names, certificate.Subject.CommonName)
			}

			return names
		}

		It("persists CAs and nothing else", func() {
			_, generated := generate("main", state.Rotation{})
			for name, secret := range generated {
				persisted := secret.Labels["persist"] == "true"
				Expect(persisted).To(Equal(strings.HasSuffix(name, "-ca")), name)
			}
		})

		It("gives the generated Secrets names by which RunningModes recognizes them", func() {
			_, generated := generate("main", state.Rotation{})
			modes := secrets.RunningModes("main", state.TLSModes{}, true, generated["client-ca bundle"].Name, generated["peer-ca bundle"].Name)
			Expect(modes.String()).To(Equal("client=provisioned,peer=provisioned"))
		})

		It("gives applications a client certificate of their own, with their own common name", func() {
			_, generated := generate("main", state.Rotation{})
			client, application := parse(generated["client"].Data["tls.crt"])[0], parse(generated["application"].Data["tls.crt"])[0]
			Expect(client.Subject.CommonName).To(Equal("etcd-client"))
			Expect(application.Subject.CommonName).To(Equal("etcd-application"))
			Expect(application.Issuer).To(Equal(client.Issuer))
			Expect(application.ExtKeyUsage).To(ConsistOf(x509.ExtKeyUsageClientAuth))
			Expect(application.SerialNumber).NotTo(Equal(client.SerialNumber))
		})

		It("rolls out the bundle, then client certificates, then server certificates, and then removes the old CA", func() {
			_, first := generate("main", state.Rotation{})
			oldCA := first["client-ca"].Name
			clock.Step(time.Hour)
			rotation := state.Rotation{StartedAt: clock.Now(), Stage: state.StagePrepareBundle}

			_, generated := generate("main", rotation)
			newCA := generated["client-ca"].Name
			Expect(newCA).NotTo(Equal(oldCA))
			Expect(subjects(generated["client-ca bundle"])).To(ConsistOf(oldCA, newCA))
			for _, name := range []string{"server", "client", "application", "peer"} {
				Expect(generated[name].Name).To(Equal(first[name].Name), "%s stays as it is", name)
			}

			for _, stage := range []state.RotationStage{state.StagePrepareLeaves, state.StagePrepared} {
				rotation.Stage = stage
				_, generated = generate("main", rotation)
				Expect(subjects(generated["client-ca bundle"])).To(ConsistOf(oldCA, newCA))
				Expect(issuer(generated["client"])).To(Equal(newCA))
				Expect(issuer(generated["application"])).To(Equal(newCA))
				Expect(issuer(generated["peer"])).To(Equal(generated["peer-ca"].Name))
				Expect(generated["server"].Name).To(Equal(first["server"].Name), "clients that trust the old CA alone still connect")
			}

			rotation.Stage = state.StageCompleteLeaves
			_, generated = generate("main", rotation)
			Expect(subjects(generated["client-ca bundle"])).To(ConsistOf(oldCA, newCA))
			Expect(issuer(generated["server"])).To(Equal(newCA))

			rotation.Stage = state.StageCompleteBundle
			manager, generated := generate("main", rotation)
			Expect(subjects(generated["client-ca bundle"])).To(ConsistOf(newCA))
			Expect(secretNames()).To(ContainElement(oldCA), "it goes only when everything was observed")
			Expect(manager.Cleanup(ctx)).To(Succeed())
			Expect(secretNames()).NotTo(ContainElement(oldCA))
			Expect(secretNames()).To(HaveLen(8))

			_, idle := generate("main", secrets.AdvanceRotation(rotation, clock.Now()))
			for name, secret := range idle {
				Expect(secret.Name).To(Equal(generated[name].Name), "%s stays when the rotation has ended", name)
			}
		})

		It("renews certificates before they expire, without a new CA", func() {
			_, first := generate("main", state.Rotation{})
			clock.SetTime(secrets.RenewAt(parse(first["server"].Data["tls.crt"])[0].NotBefore, parse(first["server"].Data["tls.crt"])[0].NotAfter).Add(-time.Minute))
			_, generated := generate("main", state.Rotation{})
			Expect(generated["server"].Name).To(Equal(first["server"].Name))

			clock.Step(2 * time.Minute)
			_, generated = generate("main", state.Rotation{})
			for _, name := range []string{"server", "client", "application", "peer"} {
				Expect(generated[name].Name).NotTo(Equal(first[name].Name))
			}
			Expect(generated["client-ca"].Name).To(Equal(first["client-ca"].Name))
		})

		It("does not change the secrets of another Etcd in the namespace", func() {
			_, first := generate("main", state.Rotation{})
			manager, _ := generate("main-client", state.Rotation{})
			Expect(secretNames()).To(HaveLen(16))
			Expect(manager.Cleanup(ctx)).To(Succeed())
			Expect(secretNames()).To(HaveLen(16))
			Expect(secretNames()).To(ContainElement(first["server"].Name))
		})
	})
})
