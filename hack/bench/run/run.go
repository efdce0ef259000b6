// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package run measures the operator with a number of Etcds on the bench cluster of the seed.
//
// What may not live here: the form of the results, and responses in place of the members.
package run

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/measure"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/stub"
)

// Options are the settings of a run.
type Options struct {
	// Etcds is the number of Etcds, and Fleet is their kind.
	Etcds int
	Fleet string
	// Kubeconfig is that of the administrator. AuditLog is the path of the API server's log, and Pids is the directory with the records of
	// the processes of the cluster. PodCIDR contains the addresses of all pods, which are addresses of the local machine.
	Kubeconfig, AuditLog, Pids, PodCIDR string
	// Operator is the path of the operator's program. Dir is the directory for its files and profiles.
	Operator, Dir string
	// Idle is the duration of the phases without changes.
	Idle time.Duration
	// Quiet is the time without writes of the operator after which a phase has ended.
	Quiet time.Duration
	// Timeout limits the duration of a phase.
	Timeout time.Duration
	// Samples is the number of single changes that are measured.
	Samples int
	// NodeLoss is true if the loss of a node is measured.
	NodeLoss bool
	// Profiles is true if CPU profiles are written.
	Profiles bool
	Log      logr.Logger
}

// runner is a run.
type runner struct {
	Options
	client   client.Client
	tracker  *tracker
	stub     *stub.Stub
	operator *operator
	audit    *measure.AuditLog
	result   report.Result
}

// Run measures the phases. The result contains the phases that were completed, also with an error. The cluster must be new: it has no
// Etcds and no operator.
func Run(ctx context.Context, o Options) (report.Result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &runner{Options: o, tracker: &tracker{}, result: report.Result{Fleet: o.Fleet, Etcds: o.Etcds}}
	log, err := os.Open(o.AuditLog)
	if err != nil {
		return r.result, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = log.Close() }()
	r.audit = measure.NewAuditLog(log, operatorUser, operatorNamespace)
	if err := r.setUp(ctx, fail); err != nil {
		return r.result, err
	}
	defer func() { r.operator.stop() }() // each start replaces the function

	return r.result, r.phases(ctx)
}

// clientFor returns a client of a program of the benchmark. The API server writes its name into the audit log.
func (o Options) clientFor(program string) (*rest.Config, client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent, config.QPS = program+"/1", -1
	c, err := client.New(config, client.Options{Scheme: app.NewScheme()})

	return config, c, err
}

// setUp installs the operator, which does not run yet, and starts to watch the cluster and to respond in place of the members.
func (r *runner) setUp(ctx context.Context, fail context.CancelCauseFunc) error {
	config, ownClient, err := r.clientFor("bench")
	if err != nil {
		return err
	}
	r.client = ownClient
	settings, err := installChart(ctx, ownClient)
	if err != nil {
		return fmt.Errorf("installing the operator: %w", err)
	}
	if r.operator, err = newOperator(ctx, ownClient, config, r.Options, settings); err != nil {
		return err
	}
	r.operator.fail = fail
	objects, err := cache.New(config, cache.Options{Scheme: ownClient.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("creating a cache: %w", err)
	}
	_, sidecars, err := r.clientFor("sidecars")
	if err != nil {
		return err
	}
	r.stub = stub.New(sidecars, objects, r.Fleet == FleetTLS, r.Log.WithName("stub"))
	go func() { fail(objects.Start(ctx)) }()
	if err := r.tracker.watch(ctx, objects); err != nil {
		return err
	}
	go func() {
		if err := r.stub.Run(ctx); err != nil {
			fail(err)
		}
	}()

	return nil
}

// nodes is the number of simulated nodes.
func (r *runner) nodes() int { return (r.Etcds + membersOfNode - 1) / membersOfNode }

// createNodes creates the simulated nodes of all members.
func (r *runner) createNodes(ctx context.Context) error {
	for number := range r.nodes() {
		if err := r.client.Create(ctx, nodeOf(number+1, r.PodCIDR)); err != nil {
			return fmt.Errorf("creating a node: %w", err)
		}
	}

	return nil
}
