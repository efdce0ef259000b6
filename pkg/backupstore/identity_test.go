// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

func withoutSecret(store state.Store) state.Store {
	store.SecretName = ""

	return store
}

var _ = Describe("The identity of a store", func() {
	identify := func(provider backupstore.Provider, override string, data map[string]string) backupstore.Identity {
		secret := map[string][]byte{"accessKeyID": []byte("AKIA"), "secretAccessKey": []byte("geheim"), "storageKey": []byte("geheim"), "password": []byte("geheim")}
		for key, value := range data {
			secret[key] = []byte(value)
		}
		public := backupstore.PublicValues(secret)
		for _, value := range public {
			Expect(value).NotTo(Or(ContainSubstring("geheim"), ContainSubstring("AKIA")))
		}

		return backupstore.IdentityOf(backupstore.Store{Provider: provider, EndpointOverride: override, SecretName: "s"}, "ns", public)
	}

	DescribeTable("comes from the Secret and the spec", func(provider backupstore.Provider, override string, data map[string]string, endpoint, account string) {
		Expect(identify(provider, override, data)).To(Equal(backupstore.Identity{Endpoint: endpoint, Account: account}))
	},
		Entry("S3 at AWS", backupstore.ProviderS3, "", map[string]string{"region": "eu-central-1"}, "amazonaws.com", ""),
		Entry("S3 in China", backupstore.ProviderS3, "", map[string]string{"region": "cn-north-1"}, "amazonaws.com.cn", ""),
		Entry("S3 with an endpoint of AWS", backupstore.ProviderS3, "", map[string]string{"endpoint": "https://s3.dualstack.eu-central-1.amazonaws.com"}, "amazonaws.com", ""),
		Entry("S3 with another endpoint", backupstore.ProviderS3, "", map[string]string{"endpoint": "http://MinIO.example.org:9000/\n"}, "minio.example.org:9000", ""),
		Entry("S3 with the port of the scheme", backupstore.ProviderS3, "", map[string]string{"endpoint": "https://minio.example.org:443"}, "minio.example.org", ""),
		Entry("S3 with a Service of the namespace", backupstore.ProviderS3, "", map[string]string{"endpoint": "http://minio"}, "minio.ns", ""),
		Entry("S3 with a Service of any namespace", backupstore.ProviderS3, "", map[string]string{"endpoint": "http://minio.other"}, "minio.other", ""),
		Entry("S3 with an IP address", backupstore.ProviderS3, "", map[string]string{"endpoint": "http://[fd00::1]:9000"}, "[fd00::1]:9000", ""),
		Entry("S3 with user info, which is dropped", backupstore.ProviderS3, "", map[string]string{"endpoint": "https://user:geheim@minio.example.org"}, "minio.example.org", ""),
		Entry("S3 with an endpoint that cannot be parsed", backupstore.ProviderS3, "", map[string]string{"endpoint": "https://%zz"}, "", ""),
		Entry("S3 with an endpoint that is too long", backupstore.ProviderS3, "", map[string]string{"endpoint": strings.Repeat("a", 300)}, "", ""),
		Entry("S3 with an endpoint in the spec, which wins", backupstore.ProviderS3, "https://a.example.org", map[string]string{"endpoint": "https://b.example.org"}, "a.example.org", ""),
		Entry("S3 with a file in JSON, which wins", backupstore.ProviderS3, "", map[string]string{"c.json": `{"endpoint":"https://a.example.org"}`, "endpoint": "https://b.example.org"}, "a.example.org", ""),
		Entry("S3 with a file that cannot be parsed", backupstore.ProviderS3, "", map[string]string{"c.json": `{`, "endpoint": "https://b.example.org"}, "", ""),
		Entry("S3 with such a file and an endpoint in the spec", backupstore.ProviderS3, "https://a.example.org", map[string]string{"c.json": `{`}, "a.example.org", ""),
		Entry("ABS", backupstore.ProviderABS, "", map[string]string{"storageAccount": "backups"}, "blob.core.windows.net", "backups"),
		Entry("ABS in another cloud", backupstore.ProviderABS, "", map[string]string{"storageAccount": "backups", "domain": "blob.core.chinacloudapi.cn"}, "blob.core.chinacloudapi.cn", "backups"),
		Entry("ABS with an endpoint in the spec", backupstore.ProviderABS, "https://backups.blob.core.windows.net", map[string]string{"storageAccount": "backups"}, "blob.core.windows.net", "backups"),
		Entry("ABS without an account", backupstore.ProviderABS, "", nil, "blob.core.windows.net", ""),
		Entry("GCS", backupstore.ProviderGCS, "", map[string]string{"serviceaccount.json": `{"project_id":"p","private_key":"geheim"}`}, "googleapis.com", "p"),
		Entry("GCS with workload identity", backupstore.ProviderGCS, "", map[string]string{"projectID": "p"}, "googleapis.com", "p"),
		Entry("GCS with an account that cannot be parsed", backupstore.ProviderGCS, "", map[string]string{"serviceaccount.json": `{`}, "googleapis.com", ""),
		Entry("GCS with another endpoint", backupstore.ProviderGCS, "", map[string]string{"storageAPIEndpoint": "http://fake-gcs:8000/storage/v1/"}, "fake-gcs.ns:8000", ""),
		Entry("Swift", backupstore.ProviderSwift, "", map[string]string{"authURL": "https://keystone.example.org:5000/v3", "region": "r", "domainName": "d", "tenantName": "t"}, "keystone.example.org:5000/r", "d/t"),
		Entry("Swift without a region and a tenant", backupstore.ProviderSwift, "", map[string]string{"authURL": "https://keystone.example.org", "domainName": "d"}, "", ""),
		Entry("OSS from any network", backupstore.ProviderOSS, "", map[string]string{"storageEndpoint": "oss-eu-central-1-internal.aliyuncs.com"}, "aliyuncs.com", ""),
		Entry("OCS", backupstore.ProviderOCS, "", map[string]string{"endpoint": "https://s3.openshift.example.org"}, "s3.openshift.example.org", ""),
		Entry("ECS", backupstore.ProviderECS, "", map[string]string{"endpoint": "https://ecs.example.org:9021"}, "ecs.example.org:9021", ""),
		Entry("ECS without an endpoint", backupstore.ProviderECS, "", nil, "", ""),
		Entry("Swift with an endpoint in the spec, which the sidecar ignores", backupstore.ProviderSwift, "https://a.example.org", map[string]string{"authURL": "https://keystone.example.org", "region": "r"}, "keystone.example.org/r", ""),
		Entry("OSS with an endpoint in the spec, which the sidecar ignores", backupstore.ProviderOSS, "https://a.example.org", map[string]string{"storageEndpoint": "oss-eu-central-1.aliyuncs.com"}, "aliyuncs.com", ""),
		Entry("OCS with an endpoint in the spec, which the sidecar ignores", backupstore.ProviderOCS, "https://a.example.org", map[string]string{"endpoint": "https://b.example.org"}, "b.example.org", ""),
		Entry("ECS with an endpoint in the spec, which the sidecar ignores", backupstore.ProviderECS, "https://a.example.org", map[string]string{"endpoint": "https://b.example.org"}, "b.example.org", ""),
		Entry("OCS with such an endpoint and a file that cannot be parsed", backupstore.ProviderOCS, "https://a.example.org", map[string]string{"c.json": `{`}, "", ""),
		Entry("Local", backupstore.ProviderLocal, "", map[string]string{"hostPath": "/d"}, "", ""),
	)

	DescribeTable("has one of these spellings of a Service", func(spelling, other string, collides, isUnchanged bool) {
		record := func(endpoint string) state.Store {
			store := backupstore.Store{Provider: backupstore.ProviderS3, Container: "c", Prefix: "p", EndpointOverride: endpoint, SecretName: "s"}
			store.Identity = backupstore.IdentityOf(store, "backup", map[string]string{})

			return backupstore.RecordFor(store)
		}
		a, b := record(spelling), record(other)
		Expect(backupstore.Collide(a, b)).To(Equal(collides), "%s and %s", a, b)
		Expect(backupstore.Collide(b, a)).To(Equal(collides), "%s and %s", b, a)
		Expect(a.HasSameIdentity(b)).To(Equal(isUnchanged), "%s and %s", a, b)
		Expect(backupstore.Conflict("x", withoutSecret(a), "y", withoutSecret(b))).To(Equal(collides))
	},
		Entry("without a domain", "http://minio.backup:9000", "http://minio.backup.svc:9000", true, false),
		Entry("without the namespace", "http://minio:9000", "http://minio.backup.svc.cluster.local:9000", true, false),
		Entry("without the namespace and with it", "http://minio:9000", "http://minio.backup:9000", true, true),
		Entry("with the default domain of clusters", "http://minio.backup.svc:9000", "http://minio.backup.svc.cluster.local:9000", true, true),
		Entry("with another domain, which may be that of another cluster", "http://minio.backup.svc:9000", "http://minio.backup.svc.seed.example.org:9000", true, false),
		Entry("with a dot at the end", "http://minio.backup.svc.cluster.local.:9000", "http://minio.backup.svc.cluster.local:9000", true, true),
		Entry("with a dot at the end and the default port", "http://minio.backup.svc.", "http://minio.backup.svc:80", true, true),
		Entry("with two labels and a dot at the end", "http://minio.backup.:9000", "http://minio:9000", true, true),
		Entry("of which one may be another host", "https://example.com", "https://example.com.svc", true, false),
		Entry("and not of another namespace", "http://minio.backup.svc:9000", "http://minio.other.svc:9000", false, false),
		Entry("and not of another Service", "http://minio.backup.svc:9000", "http://s3.backup.svc:9000", false, false),
		Entry("and not of another port", "http://minio.backup.svc:9000", "http://minio.backup.svc.cluster.local:9001", false, false),
		Entry("and not of another host", "https://minio.backup.example.org", "https://minio.backup", false, false),
		Entry("and not of an IP address", "http://[fd00::1]:9000", "http://[fd00::2]:9000", false, false),
		Entry("but of AWS with a dot at the end", "https://s3.eu-central-1.amazonaws.com.", "https://s3.amazonaws.com", true, true),
	)

	It("does not change when credentials are rotated", func() {
		before := identify(backupstore.ProviderS3, "", map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "eu-central-1"})
		Expect(identify(backupstore.ProviderS3, "", map[string]string{"accessKeyID": "c", "secretAccessKey": "d", "region": "eu-central-1"})).To(Equal(before))
	})

	It("is unknown while the Secret is not known", func() {
		Expect(backupstore.IdentityOf(backupstore.Store{Provider: backupstore.ProviderS3, SecretName: "s"}, "ns", nil)).To(Equal(backupstore.Identity{}))
		Expect(backupstore.IdentityOf(backupstore.Store{Provider: backupstore.ProviderS3, EndpointOverride: "https://e.org", SecretName: "s"}, "ns", nil)).To(Equal(backupstore.Identity{Endpoint: "e.org"}))
		Expect(backupstore.IdentityOf(backupstore.Store{Provider: backupstore.ProviderABS, EndpointOverride: "https://acct.blob.core.windows.net", SecretName: "s"}, "ns", nil)).To(Equal(backupstore.Identity{}),
			"with the Secret, the endpoint does not contain the account")
	})

	It("is that of the provider with the identity of the pod", func() {
		Expect(backupstore.IdentityOf(backupstore.Store{Provider: backupstore.ProviderS3}, "ns", nil)).To(Equal(backupstore.Identity{Endpoint: "amazonaws.com"}))
		Expect(backupstore.IdentityOf(backupstore.Store{Provider: backupstore.ProviderGCS}, "ns", nil)).To(Equal(backupstore.Identity{Endpoint: "googleapis.com"}))
	})
})
