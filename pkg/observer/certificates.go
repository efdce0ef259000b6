// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
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

// certificatesChecksum returns the SHA-256 of the values that contain certificates, in hex, with their keys. It is empty if there are none.
// Private keys do not count: a new private key needs a new certificate.
func certificatesChecksum(data map[string][]byte) string {
	hash, found := sha256.New(), false
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if bytes.Contains(data[key], []byte("-----BEGIN CERTIFICATE-----")) {
			_, _ = fmt.Fprintf(hash, "%q=%q\n", key, data[key])
			found = true
		}
	}
	if !found {
		return ""
	}

	return hex.EncodeToString(hash.Sum(nil))
}
