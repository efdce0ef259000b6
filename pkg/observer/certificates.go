// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
)

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
