// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// certificatesIn finds the certificates in the data of a Secret: the first under each key that ends in `.crt`. It omits
// what it cannot parse: the component that uses the certificate reports that.
func certificatesIn(data map[string][]byte) []etcdcluster.Certificate {
	var certificates []etcdcluster.Certificate
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !strings.HasSuffix(key, ".crt") {
			continue
		}
		block, _ := pem.Decode(data[key])
		if block == nil {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			certificates = append(certificates, etcdcluster.Certificate{Key: key, NotBefore: certificate.NotBefore, NotAfter: certificate.NotAfter})
		}
	}

	return certificates
}

// certificateChecksums returns the SHA-256 of the certificates in each value, in hex. It omits keys whose value contains no certificate. Text
// around the certificates does not count.
func certificateChecksums(data map[string][]byte) map[string]string {
	var checksums map[string]string
	for key, value := range data {
		hash, found := sha256.New(), false
		for block, rest := pem.Decode(value); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == "CERTIFICATE" {
				_, _ = hash.Write(block.Bytes)
				found = true
			}
		}
		if !found {
			continue
		}
		if checksums == nil {
			checksums = map[string]string{}
		}
		checksums[key] = hex.EncodeToString(hash.Sum(nil))
	}

	return checksums
}
