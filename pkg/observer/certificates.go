// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"crypto/x509"
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
