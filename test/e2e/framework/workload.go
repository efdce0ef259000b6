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
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	// workloadTimeout is how long an operation may take with all its attempts, workloadAttemptTimeout how long one of them.
	workloadTimeout        = time.Second
	workloadAttemptTimeout = 300 * time.Millisecond
	// workloadInterval is the time between two operations of one user.
	workloadInterval = 25 * time.Millisecond
	// dialTimeout is when users who found nobody try elsewhere: packets to a node that is cut off get no answer.
	dialTimeout = time.Second
	// workloadPrefix is below which users write: <workloadPrefix><user>/<number>.
	workloadPrefix = "workload/"
)

// Workload uses an Etcd without pause, as applications do: one writes and one reads through the Service, and one writes knowing all
// members. They record every operation.
type Workload struct {
	ns   *TestNamespace
	etcd *druidv1alpha1.Etcd
	done sync.WaitGroup
	// context lives as long as the users do, and ends with stop.
	context context.Context
	cancel  context.CancelFunc

	lock    sync.Mutex
	config  *tls.Config
	clients []*clientv3.Client // that of the Service, then that of the members
	acked   map[string]bool
	newest  string
	missing []string // keys that were acknowledged, and not read
	phases  []*PhaseStats
}

// PhaseStats is what users met with during one phase of a story.
type PhaseStats struct {
	// Phase of the story.
	Phase string
	// Writes are those that were acknowledged, Reads those that were answered.
	Writes, Reads int
	// Failed are the operations that did not succeed within a second, whatever was tried.
	Failed int
	// LastError is why the last of them failed.
	LastError string
	// WriteGap is the longest time between two acknowledged writes through the Service, MembersGap of who knows all members,
	// ReadGap between two answered reads.
	WriteGap, MembersGap, ReadGap time.Duration
	// Took is how long the phase took.
	Took time.Duration
	// Lost are acknowledged writes that are gone. It is known at the end only.
	Lost int

	start time.Time
	last  [3]time.Time
}

// StartWorkload starts users of the Etcd, which must serve, and ends them with the story. They connect as the Secret for applications says.
// What they meet with is counted for the phase.
func (ns *TestNamespace) StartWorkload(ctx context.Context, etcd *druidv1alpha1.Etcd, phase string) *Workload {
	GinkgoHelper()
	config, err := ns.Connection(ctx, etcd)
	Expect(err).NotTo(HaveOccurred())

	return ns.StartWorkloadWith(ctx, etcd, config, phase)
}

// StartWorkloadWith is StartWorkload with credentials; nil is without TLS.
func (ns *TestNamespace) StartWorkloadWith(ctx context.Context, etcd *druidv1alpha1.Etcd, config *tls.Config, phase string) *Workload {
	GinkgoHelper()

	ctx, cancel := context.WithCancel(ctx)
	w := &Workload{ns: ns, etcd: etcd.DeepCopy(), context: ctx, cancel: cancel, acked: map[string]bool{}}
	w.Reconnect(config)
	w.StartPhase(phase)

	for kind, operation := range []func(context.Context, int) error{
		func(ctx context.Context, number int) error { return w.write(ctx, 0, number) },
		func(ctx context.Context, number int) error { return w.write(ctx, 1, number) },
		func(ctx context.Context, _ int) error { return w.read(ctx) },
	} {
		w.done.Go(func() { w.run(ctx, kind, operation) })
	}

	DeferCleanup(func() {
		cancel()
		w.done.Wait()
	})

	return w
}

// Reconnect makes the users connect anew, with other credentials. Nil: without TLS.
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

	w.lock.Lock()
	w.config = config
	w.clients, clients = clients, w.clients
	w.lock.Unlock()

	for _, client := range clients {
		_ = client.Close()
	}
}

// connect connects to hosts: the Service, or pods, whose addresses are looked up for each connection as a DNS server does.
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
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(w.dial)},
	})
	Expect(err).NotTo(HaveOccurred())

	return client
}

func (w *Workload) dial(ctx context.Context, endpoint string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, err
	}

	host, _, _ = strings.Cut(host, ".")
	key := client.ObjectKey{Namespace: w.ns.Name, Name: host}
	service, pod := &corev1.Service{}, &corev1.Pod{}

	if strings.HasSuffix(host, "-client") {
		err = w.ns.Client.Get(ctx, key, service)
		host = service.Spec.ClusterIP
	} else {
		err = w.ns.Client.Get(ctx, key, pod)
		host = pod.Status.PodIP
	}

	if err != nil {
		return nil, err
	}

	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

// StartPhase ends the phase, and begins the next one.
func (w *Workload) StartPhase(phase string) {
	w.lock.Lock()
	defer w.lock.Unlock()

	now := time.Now()
	w.endPhase(now)
	w.phases = append(w.phases, &PhaseStats{Phase: phase, start: now, last: [3]time.Time{now, now, now}})
}

// endPhase counts silence up to now as a gap, too.
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

func (s *PhaseStats) recordGap(kind int, now time.Time) {
	gap := now.Sub(s.last[kind])
	s.last[kind] = now

	for i, longest := range []*time.Duration{&s.WriteGap, &s.MembersGap, &s.ReadGap} {
		if i == kind {
			*longest = max(*longest, gap)
		}
	}
}

// Stop stops the users, reads everything that was acknowledged, and expects that nothing of it is lost. It returns the phases.
func (w *Workload) Stop(ctx context.Context) []PhaseStats {
	GinkgoHelper()
	w.cancel()
	w.done.Wait()
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

	Expect(lost).To(BeEmpty(), "writes that were acknowledged and are gone")
	Expect(w.missing).To(BeEmpty(), "writes that were acknowledged and not seen by a read right after")

	return phases
}

// run does one operation after the other until the context ends.
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

// retry tries again until the operation succeeds, or its time is over.
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

		select { // as fast as clients of etcd try again themselves
		case <-ctx.Done():
		case <-time.After(workloadInterval):
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

// read reads what was acknowledged last.
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
