// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper/sidecar"
)

// fakeConfig is the configuration of a fake version of etcd, as JSON.
type fakeConfig struct {
	Paths wrapper.Paths
	// Start is the behavior of the member: one of the constants, or empty for a member that is ready.
	Start string
	// Gate is a file. The start of the member waits until it exists. Empty means that the start does not wait.
	Gate string
}

const (
	// startFails: the start returns an error.
	startFails = "fails"
	// startWaits: the member is never ready.
	startWaits = "waits"
	// startErrs: the member reports an error.
	startErrs = "errs"
	// startStops: the member stops by itself.
	startStops = "stops"

	// startedFile is a file that the member creates in the data directory.
	startedFile = "started"
)

type fakeEtcd struct {
	start  string
	errors chan error
	closed chan struct{}
}

func (e fakeEtcd) Close()            { _, _ = os.Stdout.WriteString("etcd closed\n") }
func (e fakeEtcd) Err() <-chan error { return e.errors }

func (e fakeEtcd) ReadyNotify() <-chan struct{} {
	if e.start == startWaits || e.start == startStops {
		return nil
	}

	return e.closed
}

func (e fakeEtcd) StopNotify() <-chan struct{} {
	if e.start == startStops {
		return e.closed
	}

	return nil
}

type fakeClient struct{ config *tls.Config }

func (fakeClient) Close() error { return nil }

func fakeVersion() wrapper.Version[fakeConfig, fakeEtcd, fakeClient] {
	return wrapper.Version[fakeConfig, fakeEtcd, fakeClient]{
		Load: func(file string) (config fakeConfig, err error) {
			content, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(content, &config)
			}

			return config, err
		},
		Start:  startFake,
		Paths:  func(config fakeConfig) wrapper.Paths { return config.Paths },
		Server: func(etcd fakeEtcd) wrapper.Server { return etcd },
		Connect: func(_ context.Context, endpoint string, _ time.Duration, config *tls.Config) (fakeClient, error) {
			_, _ = os.Stdout.WriteString("endpoint " + endpoint + "\n")
			return fakeClient{config}, nil
		},
		Get: getFromFake,
	}
}

func startFake(config fakeConfig) (fakeEtcd, error) {
	for gate := config.Gate; gate != ""; <-time.After(time.Millisecond) {
		if _, err := os.Stat(gate); err == nil {
			gate = ""
		}
	}

	if config.Start == startFails {
		return fakeEtcd{}, errors.New("member count is unequal")
	}

	etcd := fakeEtcd{start: config.Start, errors: make(chan error, 1), closed: make(chan struct{})}
	close(etcd.closed)

	if config.Start == startErrs {
		etcd.errors <- errors.New("listener closed")
	}

	return etcd, os.WriteFile(filepath.Join(config.Paths.Data, startedFile), nil, 0o666)
}

// getFromFake writes the serial number of the certificate that the client presents.
func getFromFake(_ context.Context, client fakeClient, key string) error {
	_, _ = os.Stdout.WriteString("get " + key + "\n")

	if client.config != nil {
		_, _ = os.Stdout.WriteString("client certificate " + client.config.Certificates[0].Leaf.SerialNumber.String() + "\n")
	}

	return nil
}

// TestMain runs the wrapper around the fake etcd if a test has started this process, and otherwise the tests.
func TestMain(m *testing.M) {
	if volume := os.Getenv(wrapper.VolumeVariable); volume != "" {
		os.Exit(wrapper.Command[fakeConfig, fakeEtcd, fakeClient]{Etcd: fakeVersion(), Volume: volume, Period: period}.Run(os.Args[1:]))
	}

	os.Exit(m.Run())
}

// start starts a wrapper whose sidecar is initialized and has the configuration. Its data directory is the volume of the environment.
func start(t *testing.T, config fakeConfig, args ...string) (*Environment, *Process) {
	t.Helper()
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusSuccessful)
	e.WriteExitCode(t, "interrupt")

	return e, startIn(t, e, config, args...)
}

func startIn(t *testing.T, e *Environment, config fakeConfig, args ...string) *Process {
	t.Helper()

	config.Paths.Data = e.Volume

	content, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}

	e.Sidecar.Config = string(content)

	return e.Start(t, e.Args(args...)...)
}

func wantExitCodeFile(t *testing.T, e *Environment, want string) {
	t.Helper()

	if got := e.ExitCodeFile(); got != want {
		t.Errorf("exit_code contains %q, want %q", got, want)
	}
}

func waitUntilReady(t *testing.T, e *Environment) {
	t.Helper()
	Eventually(t, "/readyz returns 200", func() bool { return e.Ready(t) == http.StatusOK })
}

// waitUntilRemoved waits until etcd has started. The fake is ready before.
func waitUntilRemoved(t *testing.T, e *Environment) {
	t.Helper()
	Eventually(t, "exit_code is removed", func() bool { return e.ExitCodeFile() == "" })
}

func TestUsageErrorsEndTheProcess(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		args []string
		code int
	}{
		"no command":      {nil, 1},
		"unknown command": {[]string{"start"}, 1},
		"unknown flag":    {[]string{"start-etcd", "--unknown"}, 2},
		"bad value":       {[]string{"start-etcd", "--etcd-ready-timeout=1"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			NewEnvironment(t, sidecar.StatusNew).Start(t, test.args...).WantExit(test.code)
		})
	}
}

func TestMissingHomeIsAnError(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusNew)
	e.Home = ""
	e.Start(t, e.Args()...).WantExit(1)

	if requests := e.Sidecar.Requests(); len(requests) > 0 {
		t.Errorf("requests are %q", requests)
	}
}

func TestMissingBundleIsAnError(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusNew)
	e.Start(t, e.Args("--backup-restore-tls-enabled", "--backup-restore-ca-cert-bundle-path="+filepath.Join(e.Home, "ca.crt"))...).WantExit(1)
}

func TestBundleWithoutACertificatePollsForEver(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusNew)
	bundle := filepath.Join(e.Home, "ca.crt")

	if err := os.WriteFile(bundle, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}

	p := e.Start(t, e.Args("--backup-restore-tls-enabled", "--backup-restore-ca-cert-bundle-path="+bundle)...)
	p.WantOutput(sidecar.StatusUnknown, 20)
	p.WantRunning()
}

func TestSignalDuringTheInitializationIsRecordedAndFails(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusNew)
	p := e.Start(t, e.Args()...)
	p.WantOutput(sidecar.StatusNew, 1)

	if code := e.Ready(t); code != 0 {
		t.Errorf("/readyz returns %d during the initialization, want no connection", code)
	}

	p.Signal(syscall.SIGTERM)
	p.WantExit(1)
	wantExitCodeFile(t, e, "terminated")
}

func TestConfigurationThatIsMissingFails(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusSuccessful)
	e.Sidecar.Failures = 100
	e.Start(t, e.Args()...).WantExit(1)
	wantExitCodeFile(t, e, "")
}

func TestSignalStopsEtcd(t *testing.T) {
	for signal, name := range map[syscall.Signal]string{syscall.SIGTERM: "terminated", syscall.SIGINT: "interrupt"} {
		t.Run(name, func(t *testing.T) {
			e, p := start(t, fakeConfig{})
			waitUntilRemoved(t, e)
			p.Signal(signal)
			p.WantExit(0)
			p.WantOutput("etcd closed", 1)
			wantExitCodeFile(t, e, name)
		})
	}
}

func TestStopRequestIsNotRecorded(t *testing.T) {
	e, p := start(t, fakeConfig{})
	waitUntilReady(t, e)
	e.Request(t, http.DefaultClient, http.MethodPost, "http", "/stop") // the server may close before it responds
	p.WantExit(0)
	wantExitCodeFile(t, e, "")
}

// The container ends as completed, not with an error.
func TestFailureOfARunningEtcdExitsWithZero(t *testing.T) {
	for _, behavior := range []string{startErrs, startStops} {
		t.Run(behavior, func(t *testing.T) {
			e, p := start(t, fakeConfig{Start: behavior})
			p.WantExit(0)
			wantExitCodeFile(t, e, "")
		})
	}
}

func TestFailedStartKeepsTheRecordOfTheLastExit(t *testing.T) {
	e, p := start(t, fakeConfig{Start: startFails})
	p.WantExit(1)
	wantExitCodeFile(t, e, "interrupt")
}

const readyTimeoutError = "timeout waiting for ReadyNotify signal, aborting start of etcd"

func TestWrapperDoesNotWaitUntilEtcdIsReady(t *testing.T) {
	for _, args := range [][]string{nil, {"--etcd-ready-timeout=50ms"}} {
		t.Run("args", func(t *testing.T) {
			e, p := start(t, fakeConfig{Start: startWaits}, args...)
			p.WantOutput(readyTimeoutError, 1)
			waitUntilRemoved(t, e)
			waitUntilReady(t, e)
			p.WantRunning()
		})
	}
}

// Until etcd is ready, nothing reads the context.
func TestSecondSignalEndsTheProcess(t *testing.T) {
	e, p := start(t, fakeConfig{Start: startWaits}, "--etcd-ready-timeout=1h")
	waitUntilReady(t, e)
	p.Signal(syscall.SIGTERM)
	Eventually(t, "the signal is recorded", func() bool { return e.ExitCodeFile() == "terminated" })
	p.WantRunning()
	p.Signal(syscall.SIGTERM)
	p.WantExit(1)
}

func TestServerAndProbeStartBeforeEtcd(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	e, p := start(t, fakeConfig{Gate: gate})
	p.WantOutput("endpoint http://localhost:"+strconv.Itoa(e.ClientPort), 1)
	p.WantOutput("get foo", 1)
	waitUntilReady(t, e) // the fake responds before its start
	wantExitCodeFile(t, e, "interrupt")

	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	waitUntilRemoved(t, e)
}

func TestUsedPortEndsTheProcessWithoutClosingEtcd(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusSuccessful)

	listener, err := net.Listen("tcp", ":"+strconv.Itoa(e.WrapperPort))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // no connection was accepted

	p := startIn(t, e, fakeConfig{})
	p.WantExit(1)

	if output := p.Output(); len(output) == 0 || strings.Contains(output, "etcd closed") {
		t.Errorf("output is %q", output)
	}
}

func TestFilesOfTheDataDirectoryGetMode0600(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusSuccessful)
	old := filepath.Join(e.Volume, "member", "wal", "0.wal")

	if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(old, nil, 0o666); err != nil {
		t.Fatal(err)
	}

	startIn(t, e, fakeConfig{})
	waitUntilReady(t, e)
	Eventually(t, "etcd has started", func() bool {
		_, err := os.Stat(filepath.Join(e.Volume, startedFile))
		return err == nil
	})

	for path, want := range map[string]os.FileMode{old: 0o600, filepath.Dir(old): 0o755, filepath.Join(e.Volume, startedFile): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: info is %v, error is %v, want mode %v", path, info, err, want)
		}
	}
}

// The wrapper presents the certificates of its start until it ends, also after a renewal in place.
func TestCertificatesAreReadOnce(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusSuccessful)
	ca := NewAuthority(t)
	dir := t.TempDir()
	cert, key := ca.Issue(t, dir)
	first := Serial(t, cert, key)

	p := startIn(t, e, fakeConfig{Paths: wrapper.Paths{Cert: cert, Key: key, CA: ca.File}}, "--etcd-client-cert-path="+cert, "--etcd-client-key-path="+key)
	Eventually(t, "the wrapper serves", func() bool { return e.ServedSerial(t, ca) == first })
	p.WantOutput("client certificate "+first, 1)

	ca.Issue(t, dir)

	if Serial(t, cert, key) == first {
		t.Fatal("the certificate is the same")
	}

	p.WantOutput("client certificate "+first, 2)

	if got := e.ServedSerial(t, ca); got != first {
		t.Errorf("the wrapper serves %s, want %s", got, first)
	}
}

func TestMissingClientCertificateIsAnError(t *testing.T) {
	t.Parallel()

	e := NewEnvironment(t, sidecar.StatusSuccessful)
	ca := NewAuthority(t)
	cert, key := ca.Issue(t, t.TempDir())
	startIn(t, e, fakeConfig{Paths: wrapper.Paths{Cert: cert, Key: key, CA: ca.File}}).WantExit(1)
}

func TestServerWithoutCAUsesNoTLS(t *testing.T) {
	ca := NewAuthority(t)
	cert, key := ca.Issue(t, t.TempDir())
	e, p := start(t, fakeConfig{Paths: wrapper.Paths{Cert: cert, Key: key}})
	waitUntilReady(t, e)
	p.WantOutput("endpoint http://localhost", 1)
}
