// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package run measures the operator with a number of Etcds on the bench cluster of the seed.
package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
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
	// the processes of the cluster. PodCIDR contains the addresses of all pods.
	Kubeconfig, AuditLog, Pids, PodCIDR string
	// Operator is the path of the operator's program. Dir is the directory for its files and profiles.
	Operator, Dir string
	// MembersOfNode is the number of members on a node.
	MembersOfNode int
	// Idle is the duration of the phases without changes.
	Idle time.Duration
	// Quiet is the time without writes of the operator after which a phase has ended. MaxQuietWait limits the wait for it.
	Quiet, MaxQuietWait time.Duration
	// Timeout limits the wait for all Etcds in a phase.
	Timeout time.Duration
	// Samples is the number of single changes that are measured.
	Samples int
	// NodeLoss is true if the loss of a node is measured.
	NodeLoss bool
	// Profiles is true if profiles are written.
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
	// requests are those that were counted since the begin of the phase.
	requests []report.Requests
	result   report.Result
}

// Run measures the phases. The result contains the phases that were completed, also with an error. The cluster must be new: it has no
// Etcds and no operator.
func Run(ctx context.Context, o Options) (report.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := newRunner(ctx, cancel, o)
	if err != nil {
		return report.Result{}, err
	}
	defer func() { _ = r.operator.stop() }()

	err = r.phases(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = errors.Join(err, cause)
	}

	return r.result, err
}

// configFor returns the client configuration of a program of the benchmark. The API server writes its name into the audit log.
func (o Options) configFor(program string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent, config.QPS = program+"/1", -1

	return config, nil
}

func newRunner(ctx context.Context, fail context.CancelCauseFunc, o Options) (*runner, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the output directory: %w", err)
	}
	config, err := o.configFor("bench")
	if err != nil {
		return nil, err
	}
	scheme := app.NewScheme()
	ownClient, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	settings, err := installChart(ctx, ownClient)
	if err != nil {
		return nil, fmt.Errorf("installing the operator: %w", err)
	}
	process, err := newOperator(ctx, ownClient, config, o, settings)
	if err != nil {
		return nil, err
	}
	process.fail = fail
	objects, err := cache.New(config, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, fmt.Errorf("creating a cache: %w", err)
	}
	sidecars, err := o.configFor("sidecars")
	if err != nil {
		return nil, err
	}
	sidecarClient, err := client.New(sidecars, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	r := &runner{
		Options: o, client: ownClient, tracker: &tracker{}, operator: process,
		stub:   stub.New(sidecarClient, objects, o.Fleet == FleetTLS, o.Log.WithName("stub")),
		audit:  &measure.AuditLog{Path: o.AuditLog, Clients: measure.Clients{OperatorUser: operatorUser, OperatorNamespace: operatorNamespace}},
		result: report.Result{Fleet: o.Fleet, Etcds: o.Etcds},
	}
	go func() { fail(objects.Start(ctx)) }()
	if err := r.tracker.watch(ctx, objects); err != nil {
		return nil, err
	}
	go func() {
		if err := r.stub.Run(ctx); err != nil {
			fail(err)
		}
	}()

	return r, r.createNodes(ctx)
}

// newOperator returns the process of the operator, which does not run yet.
func newOperator(ctx context.Context, c client.Client, cluster *rest.Config, o Options, settings string) (*operator, error) {
	if err := allowProfiles(ctx, c); err != nil {
		return nil, err
	}
	token, err := tokenOf(ctx, c, operatorName)
	if err != nil {
		return nil, err
	}
	process := &operator{program: o.Operator, dir: o.Dir}
	if process.profileToken, err = tokenOf(ctx, c, profileReader); err != nil {
		return nil, err
	}
	if err := rest.LoadTLSFiles(cluster); err != nil {
		return nil, fmt.Errorf("reading the CA of the cluster: %w", err)
	}

	return process, process.writeFiles(settings, cluster, token)
}

// createNodes creates the simulated nodes of all members.
func (r *runner) createNodes(ctx context.Context) error {
	for number := range (r.Etcds + r.MembersOfNode - 1) / r.MembersOfNode {
		if err := r.createNode(ctx, number+1); err != nil {
			return err
		}
	}

	return nil
}

// createNode creates a simulated node. The numbers of nodes begin with 1: node 0 would have the first addresses of the network.
func (r *runner) createNode(ctx context.Context, number int) error {
	parts := strings.SplitN(r.PodCIDR, ".", 3)
	node := nodeOf(number, parts[0]+"."+parts[1])
	if err := checkLocal(ctx, node.Spec.PodCIDR); err != nil {
		return fmt.Errorf("the pods of node %s: %w", node.Name, err)
	}
	status := node.Status
	if err := ignoreExisting(r.client.Create(ctx, node)); err != nil {
		return fmt.Errorf("creating node %s: %w", node.Name, err)
	}
	node = &corev1.Node{ObjectMeta: node.ObjectMeta, Spec: node.Spec}
	base := node.DeepCopy()
	node.Status = status

	return r.client.Status().Patch(ctx, node, client.MergeFrom(base))
}

// checkLocal returns an error if the addresses of a network are not those of the local machine. The stub would not receive the connections
// to them.
func checkLocal(ctx context.Context, network string) error {
	prefix, err := netip.ParsePrefix(network)
	if err != nil {
		return fmt.Errorf("parsing a network: %w", err)
	}
	address := prefix.Addr().Next()
	// A socket for datagrams sends nothing. The kernel sends from a local address to itself.
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", netip.AddrPortFrom(address, 1).String())
	if err != nil {
		return fmt.Errorf("finding the route to %s: %w", address, err)
	}
	defer func() { _ = conn.Close() }()
	if from, is := conn.LocalAddr().(*net.UDPAddr); !is || from.AddrPort().Addr().Unmap() != address {
		return fmt.Errorf("the address %s is not local: connections to it leave from %s", address, conn.LocalAddr())
	}

	return nil
}
