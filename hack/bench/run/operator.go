// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// token is that of the operator's ServiceAccount.
	token string

	// fail is called if the process ends without a call of stop.
	fail func(error)

	// pid is the ID of the process. stop ends it as the kubelet does. Without a process, stop does nothing.
	pid  int
	stop func()
}

// newOperator returns the process of the operator, which does not run yet. It writes the configuration and the kubeconfig of the operator.
func newOperator(ctx context.Context, c client.Client, cluster *rest.Config, o Options, config string) (*operator, error) {
	token, err := tokenOfOperator(ctx, c)
	if err != nil {
		return nil, err
	}
	process := &operator{program: o.Operator, dir: o.Dir, token: token, stop: func() {}}
	if err := os.WriteFile(process.file("config.yaml"), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration of the operator: %w", err)
	}
	if err := rest.LoadTLSFiles(cluster); err != nil {
		return nil, fmt.Errorf("reading the CA of the cluster: %w", err)
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["bench"] = &clientcmdapi.Cluster{Server: cluster.Host, CertificateAuthorityData: cluster.CAData}
	kubeconfig.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: token}
	kubeconfig.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	kubeconfig.CurrentContext = "bench"

	return process, clientcmd.WriteToFile(*kubeconfig, process.file("operator.kubeconfig"))
}

func (o *operator) file(name string) string { return filepath.Join(o.dir, name) }

// start starts the operator, and waits until its caches are in sync. The memory limit is that of the chart.
func (o *operator) start(ctx context.Context) error {
	log, err := os.OpenFile(o.file("operator.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of the operator: %w", err)
	}
	defer func() { _ = log.Close() }()
	running, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(running, o.program, "--config="+o.file("config.yaml"), "--kubeconfig="+o.file("operator.kubeconfig")) // #nosec G204 -- the program of the user
	command.Env = append(os.Environ(), "LEADER_ELECTION_NAMESPACE="+operatorNamespace, "MEMORY_LIMIT=1073741824")
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 30 * time.Second
	if err := command.Start(); err != nil {
		stop()

		return fmt.Errorf("starting the operator: %w", err)
	}
	ended := make(chan struct{})
	o.pid, o.stop = command.Process.Pid, func() {
		stop()
		<-ended
	}
	go func() {
		err := command.Wait()
		if running.Err() == nil {
			o.fail(fmt.Errorf("the operator has ended: %w; see %s", err, o.file("operator.log")))
		}
		close(ended)
	}()

	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		body, err := o.get(ctx, healthPort, "/readyz")
		if err != nil {
			return false, nil // it is not ready yet
		}

		return true, body.Close()
	})
}

// get requests a path of the operator.
func (o *operator) get(ctx context.Context, port int, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+o.token)
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

// metrics returns the sum of the samples of each metric.
func (o *operator) metrics(ctx context.Context, names ...string) (map[string]float64, error) {
	body, err := o.get(ctx, metricsPort, "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()

	return measure.SumMetrics(body, names...)
}

// state measures the memory and the goroutines. A heap profile collects garbage first.
func (o *operator) state(ctx context.Context, profile string) (report.Operator, error) {
	if err := o.profile(ctx, "/debug/pprof/heap?gc=1", profile); err != nil {
		return report.Operator{}, err
	}
	const heap, goroutines = "go_memstats_heap_alloc_bytes", "go_goroutines"
	metrics, err := o.metrics(ctx, heap, goroutines)
	if err != nil {
		return report.Operator{}, err
	}
	process, err := measure.Process(o.pid)
	if err != nil {
		return report.Operator{}, err
	}

	return report.Operator{ResidentBytes: int64(process.ResidentMemory()), HeapBytes: int64(metrics[heap]), Goroutines: int64(metrics[goroutines])}, nil
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
	metrics, err := o.metrics(ctx, "workqueue_depth", "controller_runtime_active_workers")

	return metrics["workqueue_depth"]+metrics["controller_runtime_active_workers"] > 0, err
}
