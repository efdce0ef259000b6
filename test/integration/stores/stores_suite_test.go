// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package stores_test runs the real etcd-backup-restore with the flags, the environment and the Secrets of rendered containers. It needs no
// cluster and no network. A server on the loopback interface has the APIs of all providers. It records the hosts, containers, objects and
// credentials that the program uses. SIDECAR_BINARY is the path of the program. Unset, it is etcdbrctl in the directory KUBEBUILDER_ASSETS.
package stores_test

import (
	"crypto/rand"
	"crypto/rsa"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestStores(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Stores Suite")
}

var (
	// program is the path of etcd-backup-restore.
	program string
	// overridesEndpoints is true if the program has the flag --store-endpoint-override, which v0.33 does not have.
	overridesEndpoints bool
	// authority is the certificate authority of the servers.
	authority *certificateAuthority
	// serviceAccountKey is the key of the service accounts of GCS.
	serviceAccountKey *rsa.PrivateKey
)

var _ = BeforeSuite(func() {
	program = os.Getenv("SIDECAR_BINARY")
	if program == "" {
		program = filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcdbrctl")
	}
	Expect(program).To(BeAnExistingFile(), "run the suite through make, or set SIDECAR_BINARY to the path of etcd-backup-restore")
	help, err := exec.Command(program, "copy", "--help").CombinedOutput() // #nosec G204 -- the program under test
	Expect(err).NotTo(HaveOccurred(), string(help))
	overridesEndpoints = strings.Contains(string(help), "--store-endpoint-override")

	authority = newAuthority()
	serviceAccountKey, err = rsa.GenerateKey(rand.Reader, 2048)
	Expect(err).NotTo(HaveOccurred())
})
