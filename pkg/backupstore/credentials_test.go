// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

var _ = Describe("The credentials of a store", func() {
	DescribeTable("have a key whose value has white space around it", func(provider backupstore.Provider, expected string, data map[string]string) {
		secret := map[string][]byte{}
		for key, value := range data {
			secret[key] = []byte(value)
		}
		Expect(backupstore.Store{Provider: provider}.UsedKey(backupstore.KeysWithWhiteSpace(secret))).To(Equal(expected))
	},
		Entry("a newline at the end", backupstore.ProviderS3, "secretAccessKey", map[string]string{"accessKeyID": "AKIA", "secretAccessKey": "geheim\n"}),
		Entry("a space at the start", backupstore.ProviderS3, "region", map[string]string{"region": " eu-central-1"}),
		Entry("that comes from an environment variable", backupstore.ProviderECS, "endpoint", map[string]string{"endpoint": "https://e.org\n"}),
		Entry("next to a file in JSON that the sidecar reads too", backupstore.ProviderGCS, "storageAPIEndpoint", map[string]string{"serviceaccount.json": "{}\n", "storageAPIEndpoint": "https://e.org\n"}),
		Entry("but not certificates", backupstore.ProviderS3, "", map[string]string{"trustedCaCert": "-----BEGIN\nMII\n-----END\n"}),
		Entry("but not a file in JSON, nor what the sidecar ignores next to it", backupstore.ProviderS3, "", map[string]string{"credentials.json": "{}\n", "region": "a\n"}),
		Entry("but not keys that the provider does not use", backupstore.ProviderOSS, "", map[string]string{"bucketName": "b\n", "note": " of a user", "secretAccessKey": "of S3\n"}),
		Entry("but not the directory of a Local store, which the operator reads", backupstore.ProviderLocal, "", map[string]string{"hostPath": "/a\n"}),
	)
})
