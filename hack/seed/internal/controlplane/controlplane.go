// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes of this machine.
package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

// The bench cluster also logs reads, since it counts all requests of each client.
var (
	//go:embed audit-policy.yaml
	auditPolicy []byte
	//go:embed audit-policy-bench.yaml
	benchAuditPolicy []byte
)

// Names of the processes.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// Manager starts and stops the control plane.
type Manager struct {
	Layout    layout.Layout
	Processes process.Table
	// Programs maps the names of the processes to the paths of their programs.
	Programs map[string]string
}

// EnsureAPIServer starts etcd and the API server. It does not wait until they are ready.
func (m Manager) EnsureAPIServer(ctx context.Context) error {
	policy, content := filepath.Join(m.Layout.Run, "audit-policy.yaml"), auditPolicy
	if m.Layout.Cluster == layout.Bench {
		content = benchAuditPolicy
	}

	if err := os.WriteFile(policy, content, 0o644); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}

	if err := m.checkPorts(); err != nil {
		return err
	}

	if err := m.ensure(ctx, etcd, m.etcdFlags(), nil); err != nil {
		return err
	}

	return m.ensure(ctx, apiServer, m.apiServerFlags(policy), []string{policy})
}

// EnsureControllers starts the processes that need the API server.
func (m Manager) EnsureControllers(ctx context.Context) error {
	if err := m.ensure(ctx, controllerManager, m.controllerManagerFlags(), nil); err != nil {
		return err
	}

	if m.Layout.Cluster == layout.Garden {
		return nil // no pod needs a node
	}

	return m.ensure(ctx, scheduler, m.schedulerFlags(), nil)
}

// CheckAPIServer returns an error with the end of the log if etcd or the API server has ended. A power cut may have
// corrupted their data.
func (m Manager) CheckAPIServer() error {
	if err := m.Processes.CheckAlive(etcd, apiServer); err != nil {
		return fmt.Errorf("%w\n`make down`, then `make up`, start with an empty cluster", err)
	}

	return nil
}

// CheckAlive also checks the controller manager and the scheduler, which EnsureControllers must have started.
func (m Manager) CheckAlive() error {
	if err := m.CheckAPIServer(); err != nil {
		return err
	}

	return m.Processes.CheckAlive(controllerManager, scheduler)
}

// Stop stops all processes, etcd last.
func (m Manager) Stop(ctx context.Context) error {
	var errs []error
	for _, name := range []string{scheduler, controllerManager, apiServer, etcd} {
		errs = append(errs, m.Processes.Stop(ctx, name, 10*time.Second))
	}

	return errors.Join(errs...)
}

func (m Manager) ensure(ctx context.Context, name string, flags, inputs []string) error {
	return m.Processes.Ensure(ctx, process.Spec{Name: name, Args: append([]string{m.Programs[name]}, flags...), Inputs: inputs})
}

// checkPorts returns an error if another process listens on a port of the control plane.
func (m Manager) checkPorts() error {
	for port, owner := range map[int]string{
		m.Layout.APIPort(): apiServer, m.Layout.EtcdClientPort(): etcd, m.Layout.EtcdPeerPort(): etcd,
		m.Layout.ControllerManagerPort(): controllerManager, m.Layout.SchedulerPort(): scheduler,
	} {
		if _, alive := m.Processes.Find(owner); alive {
			continue
		}

		listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
		if err != nil {
			holder, _ := process.Output(context.Background(), "ss", "-Hltnp", "sport = :"+strconv.Itoa(port))
			return fmt.Errorf("port %d, which %s needs, is in use: %s; stop that program and try again", port, owner, holder)
		}

		_ = listener.Close()
	}

	return nil
}
