// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// linearizabilityModule is the directory of the module that records and checks a history, from the directory of the end-to-end tests.
const linearizabilityModule = "../linearizability"

// History is recorded by the clients of another process, which also checks it. The process uses etcd's own model of etcd.
type History struct {
	ns      *TestNamespace
	etcd    *druidv1alpha1.Etcd
	process *exec.Cmd
	input   io.WriteCloser
	output  *gbytes.Buffer
}

// RecordHistory starts clients of an empty and healthy Etcd, which the operator has configured with TLS. They connect through the client Service. It
// returns when etcd has acknowledged the first write, which is sent once: a member that crashed before would fail the test.
func (ns *TestNamespace) RecordHistory(ctx context.Context, etcd *druidv1alpha1.Etcd, randomSeed int64) *History {
	GinkgoHelper()
	requireSeed()

	binary := filepath.Join(GinkgoT().TempDir(), "linearizability.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, ".")
	build.Dir = linearizabilityModule
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))

	h := &History{ns: ns, etcd: etcd, output: gbytes.NewBuffer()}
	h.process = exec.CommandContext(context.WithoutCancel(ctx), binary, "-test.v", "-test.timeout=0") // #nosec G204 -- built above
	h.process.Env = append(os.Environ(), "LINEARIZABILITY_ENDPOINT="+h.forward(ctx), fmt.Sprintf("LINEARIZABILITY_SEED=%d", randomSeed))
	h.process.Stdout, h.process.Stderr = h.output, h.output
	h.input, err = h.process.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(h.process.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = h.input.Close() // the process ends
	})
	h.eventuallySays(ctx, "etcd has acknowledged the first write")

	return h
}

// ExpectLinearizable stops the clients, and expects that the process finds no violation. The write-ahead logs on the volumes of the current members
// show what etcd has persisted.
func (h *History) ExpectLinearizable(ctx context.Context) {
	GinkgoHelper()

	_, err := fmt.Fprintln(h.input)
	Expect(err).NotTo(HaveOccurred(), string(h.output.Contents()))
	// A log that is copied before lacks requests that etcd has acknowledged.
	h.eventuallySays(ctx, "all clients have stopped")

	var directories []string

	claims := &corev1.PersistentVolumeClaimList{}
	Expect(h.ns.Client.List(ctx, claims, client.InNamespace(h.ns.Name), client.MatchingLabels{"app.kubernetes.io/part-of": h.etcd.Name})).To(Succeed())

	for i := range claims.Items {
		directories = append(directories, copyLog(h.ns.volumePath(ctx, &claims.Items[i])))
	}

	_, err = fmt.Fprintln(h.input, strings.Join(directories, " "))
	Expect(err).NotTo(HaveOccurred(), string(h.output.Contents()))
	Expect(h.process.Wait()).To(Succeed(), string(h.output.Contents()))
	AddReportEntry("the history of concurrent clients is linearizable", ReportEntryVisibilityAlways, string(h.output.Contents()))
}

// eventuallySays waits for a message of the process.
func (h *History) eventuallySays(ctx context.Context, message string) {
	GinkgoHelper()
	Eventually(h.output).WithContext(ctx).WithTimeout(ReadyTimeout).Should(gbytes.Say(message), func() string { return string(h.output.Contents()) })
}

// copyLog copies the write-ahead log on a volume into a directory with the layout of a data directory, and returns the directory. The copy may be
// repaired, and etcd continues with the original.
func copyLog(volume string) string {
	GinkgoHelper()

	directory := GinkgoT().TempDir()
	target := filepath.Join(directory, "member", "wal")
	Expect(os.MkdirAll(target, 0o700)).To(Succeed())
	Expect(filepath.WalkDir(volume, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (entry.IsDir() || filepath.Ext(path) != ".wal") {
			return nil
		}

		if err != nil {
			return err
		}

		content, err := os.ReadFile(path) // #nosec G304 G122 -- a volume of this test
		if err != nil {
			return err
		}

		return os.WriteFile(filepath.Join(target, filepath.Base(path)), content, 0o600) // #nosec G703 -- a temporary directory of this test
	})).To(Succeed())

	return directory
}

// forward accepts connections without TLS, and forwards them to the client Service with TLS. The credentials are those of the connection Secret at
// the time of the connection, so that a rotation of the CAs concerns only later connections. It returns its address.
func (h *History) forward(ctx context.Context) string {
	GinkgoHelper()

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)

	ctx = context.WithoutCancel(ctx)

	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}

			go h.forwardOne(ctx, near)
		}
	}()

	return listener.Addr().String()
}

func (h *History) forwardOne(ctx context.Context, near net.Conn) {
	defer func() { _ = near.Close() }()

	config, err := h.ns.Connection(ctx, h.etcd)
	if err != nil || config == nil {
		return
	}

	config.NextProtos = []string{"h2"}

	connection, err := h.ns.dialService(ctx, client.ObjectKey{Namespace: h.ns.Name, Name: h.etcd.Name + "-client"}, "2379")
	if err != nil {
		return
	}

	far := tls.Client(connection, config)

	var once sync.Once

	end := func() {
		once.Do(func() {
			_ = near.Close()
			_ = far.Close()
		})
	}

	go func() {
		defer end()
		_, _ = io.Copy(far, near)
	}()

	defer end()
	_, _ = io.Copy(near, far)
}
