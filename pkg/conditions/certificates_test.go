// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const day = 24 * time.Hour

// encrypted mounts a server certificate with the given validity relative to noon, and a CA that is valid for ten years.
func encrypted(begin, end time.Duration) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Observation.StatefulSet.TLS = etcdcluster.MountedTLS{ClientCA: "ca", Server: "server"}
		for i := range in.Observation.Pods {
			in.Observation.Pods[i].ClientTLS = &etcdcluster.ClientSecrets{CA: "ca"}
		}
		in.Observation.Secrets = []etcdcluster.Secret{
			{Name: "ca", Certificates: []etcdcluster.Certificate{{Key: "bundle.crt", NotBefore: noon.Add(-day), NotAfter: noon.Add(3650 * day)}}},
			{Name: "server", Certificates: []etcdcluster.Certificate{{Key: "tls.crt", NotBefore: noon.Add(begin), NotAfter: noon.Add(end)}}},
			{Name: "unrelated", Certificates: []etcdcluster.Certificate{{Key: "tls.crt", NotBefore: noon.Add(-2 * day), NotAfter: noon.Add(-day)}}},
		}
	}
}

// bundle mounts certificates that the first CA has signed, and the CAs under a key that the spec names.
func bundle(leaf fixture.Validity, used int, validities ...fixture.Validity) func(*conditions.Input) {
	return all(encrypted(0, 0), func(in *conditions.Input) {
		var server map[string][]byte
		var cas []byte
		for i, validity := range validities {
			ca := fixture.NewAuthority(fmt.Sprintf("ca %d", i), validity)
			cas = append(cas, ca.PEM()...)
			if i == used {
				server = ca.Leaf(leaf, "main-local", "main-client")
			}
		}
		in.Observation.Secrets = []etcdcluster.Secret{
			{Name: "ca", Exists: true, Keys: []string{"bundle.pem", "ca.crt"}, Uses: []helper.SecretUse{{Name: "ca", Keys: []string{"bundle.pem"}}}, Certificates: etcdcluster.CertificatesIn(map[string][]byte{
				"bundle.pem": cas, "ca.crt": fixture.NewAuthority("not named", until(-day)).PEM(),
			})},
			{Name: "server", Exists: true, Certificates: etcdcluster.CertificatesIn(server)},
		}
	})
}

// until is a validity of more than five years that ends at a time relative to noon.
func until(end time.Duration) fixture.Validity {
	return fixture.Validity{NotBefore: noon.Add(-2000 * day), NotAfter: noon.Add(end)}
}

var _ = DescribeTable("SecretsValid with certificates",
	func(change func(*conditions.Input), expected, message string) {
		condition := conditions.SecretsValid(healthy(change))
		Expect(statusAndReason(condition)).To(Equal(expected))
		Expect(condition.Message).To(HaveSuffix(message))
	},
	Entry("names the first that expires, with the date", encrypted(-day, 365*day), "True SecretsValid",
		"The first to expire is tls.crt of Secret server, at "+noon.Add(365*day).UTC().Format(time.RFC3339)),
	Entry("warns if it was not renewed", encrypted(-700*day, 29*day), "False CertificatesExpiring",
		"tls.crt of Secret server expires at "+noon.Add(29*day).UTC().Format(time.RFC3339)+" and was not renewed"),
	Entry("does not warn about a certificate with a short validity", encrypted(-day, 20*day), "True SecretsValid",
		"The first to expire is tls.crt of Secret server, at "+noon.Add(20*day).UTC().Format(time.RFC3339)),
	Entry("reports an expired certificate", encrypted(-2*day, -day), "False CertificatesInvalid",
		"tls.crt of Secret server expired at "+noon.Add(-day).UTC().Format(time.RFC3339)),
	Entry("reports a certificate that is not valid yet", encrypted(time.Hour, day), "False CertificatesInvalid",
		"tls.crt of Secret server is not valid before "+noon.Add(time.Hour).UTC().Format(time.RFC3339)),
	Entry("names members that still serve clients without TLS", all(encrypted(-day, 365*day), func(in *conditions.Input) { in.Observation.Pods[0].ClientTLS = nil }), "True SecretsValid",
		"The first to expire is tls.crt of Secret server, at "+noon.Add(365*day).UTC().Format(time.RFC3339)+"; until they restart, clients are served plaintext by main-0"),
	Entry("checks a renewed certificate until the pods are restarted", all(encrypted(-day, 365*day), func(in *conditions.Input) {
		in.Observation.Pods[1].TLS = etcdcluster.MountedTLS{ClientCA: "ca", Server: "unrelated"}
	}), "False CertificatesInvalid", "tls.crt of Secret unrelated expired at "+noon.Add(-day).UTC().Format(time.RFC3339)),
	Entry("checks the certificates of pods that were not restarted after TLS was switched off", all(encrypted(-2*day, -day), func(in *conditions.Input) {
		in.Observation.Pods[0].TLS, in.Observation.StatefulSet.TLS = in.Observation.StatefulSet.TLS, etcdcluster.MountedTLS{}
	}), "False CertificatesInvalid", "tls.crt of Secret server expired at "+noon.Add(-day).UTC().Format(time.RFC3339)),
	Entry("covers the newest certificate of applications, which no pod mounts", all(encrypted(-day, 365*day), func(in *conditions.Input) {
		in.Observation.Issued = []etcdcluster.IssuedSecret{
			{Name: "main-application-new", ForApplications: true, CreatedAt: noon, NotBefore: noon.Add(-700 * day), NotAfter: noon.Add(29 * day)},
			{Name: "main-application-old", ForApplications: true, CreatedAt: noon.Add(-day), NotBefore: noon.Add(-2 * day), NotAfter: noon.Add(-day)},
			{Name: "main-peer-old", CreatedAt: noon.Add(-day), NotBefore: noon.Add(-2 * day), NotAfter: noon.Add(-day)},
		}
	}), "False CertificatesExpiring", "tls.crt of Secret main-application-new expires at "+noon.Add(29*day).UTC().Format(time.RFC3339)+" and was not renewed"),
	Entry("ignores an expired CA that verifies nothing", bundle(until(90*day), 1, until(-day), until(3000*day)), "True SecretsValid",
		"The first to expire is tls.crt of Secret server, at "+noon.Add(90*day).UTC().Format(time.RFC3339)),
	Entry("warns about the CA that verifies the certificates", bundle(until(90*day), 2, until(3000*day), until(300*day), until(5*day)), "False CertificatesExpiring",
		"bundle.pem of Secret ca expires at "+noon.Add(5*day).UTC().Format(time.RFC3339)+" and was not renewed"),
	Entry("warns about it although its validity is short", bundle(until(90*day), 0, fixture.Validity{NotBefore: noon, NotAfter: noon.Add(5 * day)}), "False CertificatesExpiring",
		"bundle.pem of Secret ca expires at "+noon.Add(5*day).UTC().Format(time.RFC3339)+" and was not renewed"),
	Entry("reports that this CA has expired", bundle(until(90*day), 0, until(-day), until(3000*day)), "False CertificatesInvalid",
		"bundle.pem of Secret ca expired at "+noon.Add(-day).UTC().Format(time.RFC3339)),
	Entry("names both Secrets if a certificate does not verify", all(bundle(until(90*day), 1, until(3000*day), until(3000*day)), func(in *conditions.Input) {
		in.Observation.Secrets[0].Certificates = in.Observation.Secrets[0].Certificates[:1]
	}), "False CertificatesInvalid", "tls.crt of Secret server does not verify with bundle.pem of Secret ca: the bundle has no CA that has signed it, and its issuer is CN=ca 1: "+
		"add this CA to the bundle, or replace the certificate. No healthy member restarts before"),
	Entry("is unknown if a Secret cannot be read", failing(etcdcluster.SectionSecrets), "Unknown UnableToFetchSecrets", "timeout"),
)
