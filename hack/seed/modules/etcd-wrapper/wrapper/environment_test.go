// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper/sidecar/sidecartest"
)

const (
	period  = 10 * time.Millisecond
	timeout = 20 * time.Second
)

// Environment is the volume, the home directory, the sidecar and the ports of a wrapper.
type Environment struct {
	Volume, Home string
	// Program is the path of the wrapper. Empty means this process, as the wrapper around the fake etcd.
	Program string
	Sidecar *sidecartest.Sidecar
	// WrapperPort, ClientPort and PeerPort are free ports on the loopback address.
	WrapperPort, ClientPort, PeerPort int

	address string
}

// NewEnvironment returns an environment whose sidecar has the statuses, at first without a configuration.
func NewEnvironment(t *testing.T, statuses ...string) *Environment {
	t.Helper()

	e := &Environment{Volume: t.TempDir(), Home: t.TempDir(), Sidecar: &sidecartest.Sidecar{Statuses: statuses}}
	e.WrapperPort, e.ClientPort, e.PeerPort = freePort(t), freePort(t), freePort(t)

	server := httptest.NewServer(e.Sidecar)
	t.Cleanup(server.Close)
	e.address = strings.TrimPrefix(server.URL, "http://")

	return e
}

func freePort(t *testing.T) int {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // only its port is needed

	return listener.Addr().(*net.TCPAddr).Port
}

// Args returns the arguments of the command, followed by the further ones.
func (e *Environment) Args(further ...string) []string {
	return append([]string{
		"start-etcd", "--backup-restore-host-port=" + e.address, "--etcd-server-name=localhost",
		fmt.Sprintf("--etcd-client-port=%d", e.ClientPort), fmt.Sprintf("--etcd-wrapper-port=%d", e.WrapperPort),
	}, further...)
}

// Process is a wrapper that a test has started.
type Process struct {
	t       *testing.T
	command *exec.Cmd
	done    chan struct{}
	lock    sync.Mutex
	output  bytes.Buffer
}

// Start starts the wrapper with the arguments. The test kills it when it ends.
func (e *Environment) Start(t *testing.T, args ...string) *Process {
	t.Helper()

	fake, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	p := &Process{t: t, command: exec.Command(cmp.Or(e.Program, fake), args...), done: make(chan struct{})}
	p.command.Env = []string{wrapper.VolumeVariable + "=" + e.Volume, "HOME=" + e.Home}
	p.command.Stdout, p.command.Stderr = p, p

	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}

	go func() {
		_ = p.command.Wait() // the state contains the exit code
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // it may have ended
		<-p.done

		if t.Failed() {
			t.Logf("output of the wrapper:\n%s", p.Output())
		}
	})

	return p
}

// Write implements io.Writer for the output of the process.
func (p *Process) Write(output []byte) (int, error) {
	p.lock.Lock()
	defer p.lock.Unlock()

	return p.output.Write(output)
}

// Output returns what the process has written until now.
func (p *Process) Output() string {
	p.lock.Lock()
	defer p.lock.Unlock()

	return p.output.String()
}

// Signal sends the signal.
func (p *Process) Signal(signal os.Signal) {
	p.t.Helper()

	if err := p.command.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// WantExit waits until the process ends, and fails the test if the exit code is another one.
func (p *Process) WantExit(code int) {
	p.t.Helper()

	select {
	case <-p.done:
	case <-time.After(timeout):
		p.t.Fatal("the process does not end")
	}

	if got := p.command.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code is %d, want %d", got, code)
	}
}

// WantRunning fails the test if the process has ended.
func (p *Process) WantRunning() {
	p.t.Helper()

	select {
	case <-p.done:
		p.t.Error("the process has ended")
	default:
	}
}

// Eventually waits until the condition is true.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()

	ticker := time.NewTicker(period)
	defer ticker.Stop()

	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", timeout, what)
		}
	}
}

// WantOutput waits until the process has written the text count times.
func (p *Process) WantOutput(text string, count int) {
	p.t.Helper()
	Eventually(p.t, "output contains "+text, func() bool { return strings.Count(p.Output(), text) >= count })
}

// ExitCodeFile returns the content of the file exit_code. Empty means that it does not exist.
func (e *Environment) ExitCodeFile() string {
	content, _ := os.ReadFile(e.exitCodePath()) // absent: empty
	return string(content)
}

func (e *Environment) exitCodePath() string { return filepath.Join(e.Volume, "exit_code") }

// WriteExitCode writes the file exit_code, as an earlier run does.
func (e *Environment) WriteExitCode(t *testing.T, content string) {
	t.Helper()

	if err := os.WriteFile(e.exitCodePath(), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Request sends a request to the wrapper with the scheme and returns the status code. 0 means that the connection was refused or closed.
func (e *Environment) Request(t *testing.T, client *http.Client, method, scheme, path string) int {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("%s://localhost:%d%s", scheme, e.WrapperPort, path), nil)
	if err != nil {
		t.Fatal(err)
	}

	response, err := client.Do(request)
	if err != nil {
		return 0
	}

	_ = response.Body.Close()

	return response.StatusCode
}

// Ready returns the status code of /readyz without TLS.
func (e *Environment) Ready(t *testing.T) int {
	t.Helper()
	return e.Request(t, http.DefaultClient, http.MethodGet, "http", "/readyz")
}

// ServedSerial returns the serial number of the certificate that the wrapper serves. Empty means that the handshake failed.
func (e *Environment) ServedSerial(t *testing.T, ca *Authority) string {
	t.Helper()
	return servedSerial(t, &tls.Config{RootCAs: ca.Pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}, e.WrapperPort)
}

func servedSerial(t *testing.T, config *tls.Config, port int) string {
	t.Helper()

	connection, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", fmt.Sprintf("localhost:%d", port))
	if err != nil {
		return ""
	}
	defer func() { _ = connection.Close() }() // the test needs only the handshake

	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}
