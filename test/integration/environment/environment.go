// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package environment starts an API server with the CustomResourceDefinitions of a seed for the integration suites. It
// runs no controllers. Each suite adds the real or fake controllers that its tests need.
package environment

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
)

// Environment is a running API server.
type Environment struct {
	*envtest.Environment
	// Client is a client without a cache and with all permissions.
	Client client.Client
}

// ShortenKeys makes Gardener's library generate short keys in this process. They are sufficient for handshakes. Keys of 3072 bits would take more
// than a third of the CPU time of a suite.
func ShortenKeys() {
	secretsutils.GenerateKey = func(io.Reader, int) (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) } // #nosec G403 -- a key of a test
}

// Start starts an API server and stops it at the end of the suite or of the test. It shortens the keys of the suite.
func Start() *Environment {
	GinkgoHelper()
	return start("clusters", "backupentries", "backupbuckets")
}

// StartWithoutExtensions is like Start, but it installs no CustomResourceDefinitions of Gardener's extensions. They do not exist in clusters without Gardener.
func StartWithoutExtensions() *Environment {
	GinkgoHelper()
	return start()
}

func start(extensions ...string) *Environment {
	GinkgoHelper()
	ShortenKeys()

	Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(), "KUBEBUILDER_ASSETS must be a folder with etcd and kube-apiserver: run the suite through make")

	gardener := ModuleDirectory("github.com/gardener/gardener")
	crds := []string{
		filepath.Join(repository(), "pkg", "apis", "druid", "v1alpha1", "crds"),
		filepath.Join(gardener, "example", "resource-manager", "10-crd-resources.gardener.cloud_managedresources.yaml"),
	}
	for _, name := range extensions {
		crds = append(crds, filepath.Join(gardener, "pkg", "component", "extensions", "crds", "assets", "crd-extensions.gardener.cloud_"+name+".yaml"))
	}
	env := &Environment{Environment: &envtest.Environment{
		CRDInstallOptions:     envtest.CRDInstallOptions{Paths: crds},
		ErrorIfCRDPathMissing: true,
		// The defaults of 20 and 10 seconds are too short on a busy machine.
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: 2 * time.Minute,
	}}
	env.CRDInstallOptions.MaxTime = 2 * time.Minute
	_, err := env.Environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })

	env.Client, err = client.New(env.Config, client.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	return env
}

// Namespace creates a namespace for a test.
func (e *Environment) Namespace(ctx context.Context, prefix string) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	Expect(e.Client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// KubeconfigFile writes a kubeconfig of an administrator to a temporary file and returns its path.
func (e *Environment) KubeconfigFile() string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, e.KubeConfig, 0o600)).To(Succeed())
	return path
}

// FreePort returns an unused TCP port.
func FreePort() int {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(listener.Close()).To(Succeed()) }()
	return listener.Addr().(*net.TCPAddr).Port
}

// repository returns the root folder of the module. It searches upwards from the working directory of the test.
func repository() string {
	directory, err := os.Getwd()
	Expect(err).NotTo(HaveOccurred())
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory
		}
		parent := filepath.Dir(directory)
		Expect(parent).NotTo(Equal(directory), "no go.mod above the working directory")
		directory = parent
	}
}

// ModuleDirectory returns the folder of a Go module in the version that the tests use.
func ModuleDirectory(module string) string {
	GinkgoHelper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output() // #nosec G204 -- a constant of this package
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(out))
}
