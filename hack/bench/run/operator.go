// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/measure"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
)

// Ports of the operator. Port 8080 is that of the sidecars.
const (
	metricsPort = 18080
	healthPort  = 18081
)

// operator is the process of the operator.
type operator struct {
	program, dir string
	// profileToken is a token of a user who may read profiles.
	profileToken string

	// fail is called if the process ends without a call of stop.
	fail func(error)

	command *exec.Cmd
	ended   chan struct{}
	stops   atomic.Bool
}

// writeFiles writes the configuration and the kubeconfig of the operator.
func (o *operator) writeFiles(config string, cluster *rest.Config, token string) error {
	if err := os.WriteFile(o.file("config.yaml"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of the operator: %w", err)
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["bench"] = &clientcmdapi.Cluster{Server: cluster.Host, CertificateAuthorityData: cluster.CAData}
	kubeconfig.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: token}
	kubeconfig.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	kubeconfig.CurrentContext = "bench"

	return clientcmd.WriteToFile(*kubeconfig, o.file("operator.kubeconfig"))
}

func (o *operator) file(name string) string { return filepath.Join(o.dir, name) }

// start starts the operator, and waits until its caches are in sync. GOMEMLIMIT is that of the chart.
func (o *operator) start(ctx context.Context) error {
	log, err := os.OpenFile(o.file("operator.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of the operator: %w", err)
	}
	defer func() { _ = log.Close() }()
	o.command = exec.Command(o.program, "--config="+o.file("config.yaml"), "--kubeconfig="+o.file("operator.kubeconfig")) // #nosec G204 -- the program of the user
	o.command.Env = append(os.Environ(), "LEADER_ELECTION_NAMESPACE="+operatorNamespace, "GOMEMLIMIT=1GiB")
	o.command.Stdout, o.command.Stderr = log, log
	o.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := o.command.Start(); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	ended := make(chan struct{})
	o.ended = ended
	o.stops.Store(false)
	command := o.command
	go func() {
		err := command.Wait()
		close(ended)
		if !o.stops.Load() {
			o.fail(fmt.Errorf("the operator has ended: %w; see %s", err, o.file("operator.log")))
		}
	}()

	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		body, err := o.get(ctx, healthPort, "/readyz")
		if err != nil {
			return false, nil // it is not ready yet
		}

		return true, body.Close()
	})
}

// stop ends the operator as the kubelet does.
func (o *operator) stop() error {
	if o.command == nil {
		return nil
	}
	o.stops.Store(true)
	if err := o.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the operator: %w", err)
	}
	select {
	case <-o.ended:
	case <-time.After(30 * time.Second):
		_ = o.command.Process.Kill()
		<-o.ended
	}
	o.command = nil

	return nil
}

func (o *operator) pid() int { return o.command.Process.Pid }

// get requests a path of the operator.
func (o *operator) get(ctx context.Context, port int, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+o.profileToken)
	response, err := http.DefaultClient.Do(request) // #nosec G704 -- the loopback interface
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()

		return nil, fmt.Errorf("the operator responds to %s with %s", path, response.Status)
	}

	return response.Body, nil
}

func (o *operator) metrics(ctx context.Context) (measure.Metrics, error) {
	body, err := o.get(ctx, metricsPort, "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()

	return measure.ParseMetrics(body)
}

// state measures the memory and the goroutines. A heap profile collects garbage first.
func (o *operator) state(ctx context.Context, profile string) (report.Operator, error) {
	if err := o.profile(ctx, "/debug/pprof/heap?gc=1", profile); err != nil {
		return report.Operator{}, err
	}
	metrics, err := o.metrics(ctx)
	if err != nil {
		return report.Operator{}, err
	}
	resident, err := measure.ResidentBytes(o.pid())
	if err != nil {
		return report.Operator{}, err
	}

	return report.Operator{ResidentBytes: resident, HeapBytes: int64(metrics["go_memstats_heap_alloc_bytes"]), Goroutines: int64(metrics["go_goroutines"])}, nil
}

// profile writes a profile to a file.
func (o *operator) profile(ctx context.Context, path, file string) error {
	body, err := o.get(ctx, metricsPort, path)
	if err != nil {
		return fmt.Errorf("reading a profile: %w", err)
	}
	defer func() { _ = body.Close() }()
	target, err := os.Create(o.file(file)) // #nosec G304 -- a file in the output directory
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	_, err = io.Copy(target, body)

	return err
}

// isBusy returns whether requests for reconciliations wait or are executed.
func (o *operator) isBusy(ctx context.Context) (bool, error) {
	metrics, err := o.metrics(ctx)
	if err != nil {
		return false, err
	}

	return metrics.Sum("workqueue_depth") > 0 || metrics.Sum("controller_runtime_active_workers") > 0, nil
}
