// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	// workloadTimeout bounds an operation with all its attempts. workloadAttemptTimeout bounds one attempt.
	workloadTimeout        = time.Second
	workloadAttemptTimeout = 300 * time.Millisecond
	// workloadInterval is the time between two operations of a client. The requests of three workloads take CPU time from members that
	// start on the same two cores.
	workloadInterval = 100 * time.Millisecond
	// retryInterval is the time between two attempts of an operation, which is the default of the etcd client.
	retryInterval = 25 * time.Millisecond
	// reconnectDelay bounds the time between two attempts to connect to a pod. The default of gRPC increases to two minutes while a pod does not
	// exist, such as the temporary second pod of a single member. The client would then not notice for as long that the pod exists.
	reconnectDelay = 300 * time.Millisecond
	// workloadPrefix begins the keys of the workload: <workloadPrefix><client>/<number>.
	workloadPrefix = "workload/"
)

// Workload reads and writes an Etcd continuously, like applications. Two clients connect through the Service. One of them
// writes, and the other reads. A third client connects to all members and writes. The workload records every operation.
type Workload struct {
	ns   *TestNamespace
	etcd *druidv1alpha1.Etcd
	done sync.WaitGroup
	// context is the context of the clients. cancel ends it.
	context context.Context
	cancel  context.CancelFunc

	lock    sync.Mutex
	config  *tls.Config
	clients []*clientv3.Client // the client of the Service, then the client of the members
	acked   map[string]bool
	newest  string
	missing []string // acknowledged keys that a later read did not return
	phases  []*PhaseStats
}

// StartWorkload starts a workload on a healthy Etcd with the credentials of the connection Secret. Phase is the name of its
// first phase. The workload ends with the test at the latest.
func (ns *TestNamespace) StartWorkload(ctx context.Context, etcd *druidv1alpha1.Etcd, phase string) *Workload {
	GinkgoHelper()
	config, err := ns.Connection(ctx, etcd)
	Expect(err).NotTo(HaveOccurred())

	return ns.StartWorkloadWith(ctx, etcd, config, phase)
}

// StartWorkloadWith starts a workload with these credentials. Nil means plaintext. The first phase starts when all clients are connected.
func (ns *TestNamespace) StartWorkloadWith(ctx context.Context, etcd *druidv1alpha1.Etcd, config *tls.Config, phase string) *Workload {
	GinkgoHelper()

	ctx, cancel := context.WithCancel(ctx)
	w := &Workload{ns: ns, etcd: etcd.DeepCopy(), context: ctx, cancel: cancel, acked: map[string]bool{}}
	w.Reconnect(config)
	w.awaitConnections(ctx)
	w.StartPhase(phase)

	for kind, operation := range []func(context.Context, int) error{
		func(ctx context.Context, number int) error { return w.write(ctx, 0, number) },
		func(ctx context.Context, number int) error { return w.write(ctx, 1, number) },
		func(ctx context.Context, _ int) error { return w.read(ctx) },
	} {
		w.done.Go(func() { w.run(ctx, kind, operation) })
	}

	w.done.Go(func() { w.recordStalls(ctx) })

	DeferCleanup(w.end)

	return w
}

// Reconnect replaces the connections of the clients with connections that use these credentials. Nil means plaintext.
func (w *Workload) Reconnect(config *tls.Config) {
	GinkgoHelper()
	ctx := w.context

	service := &corev1.Service{}
	Expect(w.ns.Client.Get(ctx, client.ObjectKey{Namespace: w.ns.Name, Name: w.etcd.Name + "-client"}, service)).To(Succeed())

	members := make([]string, max(w.etcd.Spec.Replicas, 3))
	for ordinal := range members {
		members[ordinal] = fmt.Sprintf("%s-%d.%s-peer.%s.svc", w.etcd.Name, ordinal, w.etcd.Name, w.ns.Name)
	}

	clients := []*clientv3.Client{w.connect(ctx, config, service.Name), w.connect(ctx, config, members...)}

	go w.recordConnection(ctx, clients[0].ActiveConnection())

	w.lock.Lock()
	w.config = config
	w.clients, clients = clients, w.clients
	w.lock.Unlock()

	for _, client := range clients {
		_ = client.Close()
	}
}

// awaitConnections waits until each client has read from the Etcd. A node forwards packets to a ready pod only after its kube-proxy has
// received the endpoint of the Service. A packet before then is dropped, and TCP sends it again after a second.
func (w *Workload) awaitConnections(ctx context.Context) {
	GinkgoHelper()
	for kind := range w.clients {
		Eventually(func() error {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			_, err := w.client(kind).Get(ctx, workloadPrefix)

			return err
		}).WithContext(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval).Should(Succeed(), w.ns.State)
	}
}

// connect returns a client of the hosts, which are the Service or pods. The client resolves their addresses for each new
// connection.
func (w *Workload) connect(ctx context.Context, config *tls.Config, hosts ...string) *clientv3.Client {
	GinkgoHelper()

	scheme := "http://"
	if config != nil {
		scheme = "https://"
	}

	endpoints := make([]string, len(hosts))
	for i, host := range hosts {
		endpoints[i] = scheme + net.JoinHostPort(host, "2379")
	}

	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: endpoints, TLS: config, Logger: zap.NewNop(),
		DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(w.dial),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: reconnectDelay, MaxDelay: reconnectDelay}, MinConnectTimeout: dialTimeout}),
		},
	})
	Expect(err).NotTo(HaveOccurred())

	return client
}

// StartPhase ends the running phase and starts the next one.
func (w *Workload) StartPhase(phase string) {
	w.lock.Lock()
	defer w.lock.Unlock()

	now := time.Now()
	w.endPhase(now)
	w.phases = append(w.phases, &PhaseStats{Phase: phase, start: now, last: [3]time.Time{now, now, now}})
}

// AwaitWrites waits until both writers have written in the running phase after the call. A phase that starts then has no part of the gap of
// the phase before.
func (w *Workload) AwaitWrites(ctx context.Context) {
	GinkgoHelper()
	start := time.Now()
	Eventually(func() []time.Time {
		w.lock.Lock()
		defer w.lock.Unlock()

		return w.phases[len(w.phases)-1].last[:2]
	}).WithContext(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval).Should(HaveEach(BeTemporally(">", start)))
}

// endPhase ends the running phase. The time since the last successful operation counts as a gap too.
func (w *Workload) endPhase(now time.Time) {
	if len(w.phases) == 0 {
		return
	}

	stats := w.phases[len(w.phases)-1]
	stats.Took = now.Sub(stats.start)

	for kind := range stats.last {
		stats.recordGap(kind, now)
	}
}

// Stop stops the clients, reads all keys of the workload, and expects that no acknowledged write is lost. It returns
// the phases.
func (w *Workload) Stop(ctx context.Context) []PhaseStats {
	GinkgoHelper()
	w.end()
	w.lock.Lock()
	defer w.lock.Unlock()
	w.endPhase(time.Now())

	found := (&WriteLog{ns: w.ns, etcd: w.etcd, TLS: w.config}).readPrefix(ctx, workloadPrefix)
	lost := maps.Clone(w.acked)
	maps.DeleteFunc(lost, func(key string, _ bool) bool { _, is := found[key]; return is })

	phases := make([]PhaseStats, len(w.phases))
	for i, stats := range w.phases {
		stats.Lost = len(lost) + len(w.missing)
		phases[i] = *stats
		AddReportEntry(phaseStatsEntry, *stats, ReportEntryVisibilityNever)
	}

	Expect(lost).To(BeEmpty(), "acknowledged writes that etcd lost")
	Expect(w.missing).To(BeEmpty(), "acknowledged writes that the next read did not return")

	return phases
}

// end stops the clients and closes their connections. gRPC would otherwise connect to the deleted pods again and again for all of the other tests.
func (w *Workload) end() {
	w.cancel()
	w.done.Wait()

	w.lock.Lock()
	defer w.lock.Unlock()

	for _, client := range w.clients {
		_ = client.Close()
	}

	w.clients = nil
}

// run executes the operation repeatedly until the context ends.
func (w *Workload) run(ctx context.Context, kind int, operation func(context.Context, int) error) {
	ticker := time.NewTicker(workloadInterval)
	defer ticker.Stop()

	for number := 0; ctx.Err() == nil; number++ {
		err := w.retry(ctx, func(ctx context.Context) error { return operation(ctx, number) })
		if ctx.Err() == nil {
			w.record(kind, err)
		}

		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// recordStalls records how late the timers of this process are until the context ends.
func (w *Workload) recordStalls(ctx context.Context) {
	for ctx.Err() == nil {
		start := time.Now()

		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}

		w.lock.Lock()
		stats := w.phases[len(w.phases)-1]
		stats.Stall = max(stats.Stall, time.Since(start)-retryInterval)
		w.lock.Unlock()
	}
}

func (w *Workload) record(kind int, err error) {
	w.lock.Lock()
	defer w.lock.Unlock()

	stats := w.phases[len(w.phases)-1]

	switch {
	case err != nil:
		stats.Failed++
		stats.LastError = fmt.Sprintf("at %s: %v", time.Now().Format(time.TimeOnly), err)

		return
	case kind == 2:
		stats.Reads++
	default:
		stats.Writes++
	}

	stats.recordGap(kind, time.Now())
}

// retry executes the operation until it succeeds or workloadTimeout has passed.
func (*Workload) retry(ctx context.Context, operation func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, workloadTimeout)
	defer cancel()

	for {
		attempt, cancel := context.WithTimeout(ctx, workloadAttemptTimeout)
		err := operation(attempt)

		cancel()

		if err == nil || ctx.Err() != nil {
			return err
		}

		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}

func (w *Workload) client(kind int) *clientv3.Client {
	w.lock.Lock()
	defer w.lock.Unlock()

	return w.clients[kind]
}

func (w *Workload) write(ctx context.Context, kind, number int) error {
	key := fmt.Sprintf("%s%d/%08d", workloadPrefix, kind, number)
	if _, err := w.client(kind).Put(ctx, key, "1"); err != nil {
		return err
	}

	w.lock.Lock()
	defer w.lock.Unlock()
	w.acked[key] = true

	if kind == 0 {
		w.newest = key
	}

	return nil
}

// read reads the key of the last acknowledged write.
func (w *Workload) read(ctx context.Context) error {
	w.lock.Lock()
	key := w.newest
	w.lock.Unlock()

	if key == "" {
		return nil
	}

	response, err := w.client(0).Get(ctx, key)
	if err != nil {
		return err
	}

	if response.Count == 0 {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.missing = append(w.missing, key)
	}

	return nil
}
