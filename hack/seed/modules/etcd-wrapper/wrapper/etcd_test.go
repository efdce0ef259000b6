// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper/sidecar"
)

// TestEtcd tests the wrapper around each version of etcd.
func TestEtcd(t *testing.T) {
	t.Parallel()

	for _, version := range []struct {
		directory, release string
		// logLine matches a line of etcd's log.
		logLine *regexp.Regexp
	}{
		{"etcd34", "3.4.34", regexp.MustCompile(`(?m)^[0-9-]+ [0-9:.]+ I \| etcdserver: `)},
		{"etcd35", "3.5.24", regexp.MustCompile(`(?m)^\{"level":"info","ts":"[^"]+","caller":"etcdserver/`)},
	} {
		t.Run(version.release, func(t *testing.T) {
			t.Parallel()

			m := etcdWrapper(filepath.Join(t.TempDir(), "etcd-wrapper"))
			build := exec.CommandContext(t.Context(), "go", "build", "-o", string(m), ".")
			build.Dir = filepath.Join("..", version.directory)

			if output, err := build.CombinedOutput(); err != nil {
				t.Fatalf("building %s: %v\n%s", version.directory, err, output)
			}

			t.Run("runs a member until a signal", func(t *testing.T) { m.testMember(t, version.release, version.logLine) })
			t.Run("does not wait until a member has joined", m.testMemberWithoutQuorum)
			t.Run("fails if etcd does not start", m.testUsedClientPort)
			t.Run("exits with 0 if the member is removed", m.testRemovedMember)
			t.Run("serves the first certificate while etcd serves the renewed one", m.testRenewedCertificate)
		})
	}
}

// etcdWrapper is the path of a wrapper around a version of etcd.
type etcdWrapper string

// memberConfig returns the configuration of a member, followed by the lines. It contains a key that no version of etcd has, which etcd ignores.
func (e *Environment) memberConfig(scheme string, lines ...string) string {
	clientURL, peerURL := fmt.Sprintf("%s://127.0.0.1:%d", scheme, e.ClientPort), fmt.Sprintf("http://127.0.0.1:%d", e.PeerPort)

	return strings.Join(append([]string{
		"data-dir: " + e.Volume + "/new.etcd",
		"listen-client-urls: " + clientURL,
		"advertise-client-urls: " + clientURL,
		"listen-peer-urls: " + peerURL,
		"initial-advertise-peer-urls: " + peerURL,
		"initial-cluster-state: new",
		"enable-grpc-gateway: true",
		"unknown-key: value",
	}, lines...), "\n")
}

func (e *Environment) alone() string {
	return fmt.Sprintf("name: etcd-0\ninitial-cluster: etcd-0=http://127.0.0.1:%d", e.PeerPort)
}

// start starts a wrapper whose sidecar is initialized, after a run that a signal ended.
func (m etcdWrapper) start(t *testing.T, config func(*Environment) string, args ...string) (*Environment, *Process) {
	t.Helper()
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusNew, sidecar.StatusSuccessful)
	e.Program, e.Sidecar.Config = string(m), config(e)
	e.WriteExitCode(t, "interrupt")

	return e, e.Start(t, e.Args(args...)...)
}

func single(e *Environment) string { return e.memberConfig("http", e.alone()) }

func (m etcdWrapper) testMember(t *testing.T, release string, logLine *regexp.Regexp) {
	e, p := m.start(t, single)
	waitUntilReady(t, e)
	p.WantOutput("timeout waiting for ReadyNotify signal, aborting start of etcd", 1)

	if got := e.ExitCodeFile(); got != "" {
		t.Errorf("exit_code contains %q", got)
	}

	var status struct{ Version string }
	e.etcd(t, "/v3/maintenance/status", "{}", &status)

	if status.Version != release {
		t.Errorf("etcd has version %s, want %s", status.Version, release)
	}

	if !logLine.MatchString(p.Output()) {
		t.Errorf("no line of the log matches %s", logLine)
	}

	p.Signal(syscall.SIGTERM)
	p.WantExit(0)

	if got := e.ExitCodeFile(); got != "terminated" {
		t.Errorf("exit_code contains %q, want terminated", got)
	}
}

func (m etcdWrapper) testMemberWithoutQuorum(t *testing.T) {
	e, p := m.start(t, func(e *Environment) string {
		return e.memberConfig("http", e.alone()+fmt.Sprintf(",etcd-1=http://127.0.0.1:%d,etcd-2=http://127.0.0.1:%d", freePort(t), freePort(t)))
	})

	Eventually(t, "exit_code is removed", func() bool { return e.ExitCodeFile() == "" })
	p.WantOutput("reading from etcd failed", 1)

	if code := e.Ready(t); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz returns %d, want 503", code)
	}

	// Closing etcd blocks until the member has joined. Only a second signal ends the process.
	p.Signal(syscall.SIGTERM)
	Eventually(t, "the signal is recorded and the server is closed", func() bool { return e.ExitCodeFile() == "terminated" && e.Ready(t) == 0 })
	p.WantRunning()
	p.Signal(syscall.SIGTERM)
	p.WantExit(1)
}

func (m etcdWrapper) testUsedClientPort(t *testing.T) {
	e, p := m.start(t, func(e *Environment) string {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", e.ClientPort))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() }) // no connection was accepted

		return single(e)
	})
	p.WantExit(1)

	if got := e.ExitCodeFile(); got != "interrupt" {
		t.Errorf("exit_code contains %q, want interrupt", got)
	}
}

// testRemovedMember removes one of two members, since etcd does not survive the removal of the last one.
func (m etcdWrapper) testRemovedMember(t *testing.T) {
	t.Parallel()

	var members [2]*Environment

	for i := range members {
		members[i] = NewEnvironment(t, sidecar.StatusSuccessful)
	}

	cluster := fmt.Sprintf("initial-cluster: etcd-0=http://127.0.0.1:%d,etcd-1=http://127.0.0.1:%d", members[0].PeerPort, members[1].PeerPort)

	var processes [2]*Process

	for i, e := range members {
		e.Program = string(m)
		e.Sidecar.Config = e.memberConfig("http", cluster, "strict-reconfig-check: false", fmt.Sprintf("name: etcd-%d", i))
		processes[i] = e.Start(t, e.Args()...)
	}

	waitUntilReady(t, members[0])
	waitUntilReady(t, members[1])

	var list struct{ Members []struct{ ID, Name string } }
	members[0].etcd(t, "/v3/cluster/member/list", "{}", &list)

	for _, member := range list.Members {
		if member.Name == "etcd-1" {
			members[0].etcd(t, "/v3/cluster/member/remove", `{"ID":"`+member.ID+`"}`, &list)
		}
	}

	processes[1].WantExit(0)
	processes[1].WantOutput("etcd stopped by itself", 1)
	processes[0].WantRunning()

	if got := members[1].ExitCodeFile(); got != "" {
		t.Errorf("exit_code contains %q", got)
	}
}

func (m etcdWrapper) testRenewedCertificate(t *testing.T) {
	ca, dir := NewAuthority(t), t.TempDir()
	cert, key := ca.Issue(t, dir)
	first := Serial(t, cert, key)

	e, _ := m.start(t, func(e *Environment) string {
		return e.memberConfig("https", e.alone(), "client-transport-security:", "  cert-file: "+cert, "  key-file: "+key,
			"  trusted-ca-file: "+ca.File, "  client-cert-auth: true")
	}, "--etcd-client-cert-path="+cert, "--etcd-client-key-path="+key)

	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}

	config := &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{pair}, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	Eventually(t, "/readyz returns 200", func() bool { return e.Request(t, client, http.MethodGet, "https", "/readyz") == http.StatusOK })

	ca.Issue(t, dir)

	if got, want := servedSerial(t, config, e.ClientPort), Serial(t, cert, key); got != want {
		t.Errorf("etcd serves %s, want %s", got, want)
	}

	if got := e.ServedSerial(t, ca); got != first {
		t.Errorf("the wrapper serves %s, want %s", got, first)
	}
}

// etcd posts the body to etcd's gateway for HTTP and decodes the response into result.
func (e *Environment) etcd(t *testing.T, path, body string, result any) {
	t.Helper()

	response, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d%s", e.ClientPort, path), "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read

	if err := json.NewDecoder(response.Body).Decode(result); err != nil {
		t.Fatal(err)
	}
}
