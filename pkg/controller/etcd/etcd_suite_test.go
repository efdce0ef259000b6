// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"crypto/rand"
	"crypto/rsa"
	"io"
	"runtime/debug"
	"sync"
	"testing"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

func TestEtcd(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controller Etcd Suite")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // crash cases copy and drop objects all the time, and few of them live at the same time
	// No test makes a handshake: one key suffices for all certificates.
	key := sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) }) // #nosec G403 -- a key of this test, and short keys are generated faster
	secretsutils.GenerateKey = func(io.Reader, int) (*rsa.PrivateKey, error) { return key() }
})
