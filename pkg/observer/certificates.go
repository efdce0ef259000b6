// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"

	corev1 "k8s.io/api/core/v1"
)

// hasOtherKey is true for a certificate with a private key that does not belong to it, or that cannot be read.
func hasOtherKey(data map[string][]byte) bool {
	certificate, key := data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]
	if len(certificate) == 0 || len(key) == 0 {
		return false
	}
	_, err := tls.X509KeyPair(certificate, key)

	return err != nil
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
