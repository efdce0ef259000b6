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
	// operationTimeout is how long an operation may take with all its attempts, attemptOfUsers how long one of them.
	operationTimeout = time.Second
	attemptOfUsers   = 300 * time.Millisecond
	// pace is the time between two operations of one user.
	pace = 25 * time.Millisecond
	// dialTimeout is when users who found nobody try elsewhere: packets to a node that is cut off get no answer.
	dialTimeout = time.Second
	// usersKeys is below which users write: <usersKeys><user>/<number>.
	usersKeys = "users/"
)

// Users use an Etcd without pause, as applications do: one writes and one reads through the Service, and one writes knowing all
// members. They record every operation.
type Users struct {
	ns   *TestNamespace
	etcd *druidv1alpha1.Etcd
	done sync.WaitGroup
	// context lives as long as the users do, and ends with stop.
	context context.Context
	stop    context.CancelFunc

	lock    sync.Mutex
	config  *tls.Config
	clients []*clientv3.Client // that of the Service, then that of the members
	acked   map[string]bool
	newest  string
	missing []string // keys that were acknowledged, and not read
	usages  []*Usage
}

// Usage is what users met with during one phase of a story.
type Usage struct {
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

	began time.Time
	last  [3]time.Time
}

// Use starts users of the Etcd, which must serve, and ends them with the story. They connect as the Secret for applications says.
// What they meet with is counted for the phase.
func (ns *TestNamespace) Use(ctx context.Context, etcd *druidv1alpha1.Etcd, phase string) *Users {
	GinkgoHelper()
	config, err := ns.Connection(ctx, etcd)
	Expect(err).NotTo(HaveOccurred())

	return ns.UseWith(ctx, etcd, config, phase)
}

// UseWith is Use with credentials; nil is without TLS.
func (ns *TestNamespace) UseWith(ctx context.Context, etcd *druidv1alpha1.Etcd, config *tls.Config, phase string) *Users {
	GinkgoHelper()

	ctx, stop := context.WithCancel(ctx)
	u := &Users{ns: ns, etcd: etcd.DeepCopy(), context: ctx, stop: stop, acked: map[string]bool{}}
	u.Connect(config)
	u.Begin(phase)

	for kind, operation := range []func(context.Context, int) error{
		func(ctx context.Context, number int) error { return u.write(ctx, 0, number) },
		func(ctx context.Context, number int) error { return u.write(ctx, 1, number) },
		func(ctx context.Context, _ int) error { return u.read(ctx) },
	} {
		u.done.Go(func() { u.use(ctx, kind, operation) })
	}

	DeferCleanup(func() {
		stop()
		u.done.Wait()
	})

	return u
}

// Connect makes the users connect anew, with other credentials. Nil: without TLS.
func (u *Users) Connect(config *tls.Config) {
	GinkgoHelper()
	ctx := u.context

	service := &corev1.Service{}
	Expect(u.ns.Client.Get(ctx, client.ObjectKey{Namespace: u.ns.Name, Name: u.etcd.Name + "-client"}, service)).To(Succeed())

	members := make([]string, max(u.etcd.Spec.Replicas, 3))
	for ordinal := range members {
		members[ordinal] = fmt.Sprintf("%s-%d.%s-peer.%s.svc", u.etcd.Name, ordinal, u.etcd.Name, u.ns.Name)
	}

	clients := []*clientv3.Client{u.connect(ctx, config, service.Name), u.connect(ctx, config, members...)}

	u.lock.Lock()
	u.config = config
	u.clients, clients = clients, u.clients
	u.lock.Unlock()

	for _, client := range clients {
		_ = client.Close()
	}
}

// connect connects to hosts: the Service, or pods, whose addresses are looked up for each connection as a DNS server does.
func (u *Users) connect(ctx context.Context, config *tls.Config, hosts ...string) *clientv3.Client {
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
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(u.dial)},
	})
	Expect(err).NotTo(HaveOccurred())

	return client
}

func (u *Users) dial(ctx context.Context, endpoint string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, err
	}

	host, _, _ = strings.Cut(host, ".")
	key := client.ObjectKey{Namespace: u.ns.Name, Name: host}
	service, pod := &corev1.Service{}, &corev1.Pod{}

	if strings.HasSuffix(host, "-client") {
		err = u.ns.Client.Get(ctx, key, service)
		host = service.Spec.ClusterIP
	} else {
		err = u.ns.Client.Get(ctx, key, pod)
		host = pod.Status.PodIP
	}

	if err != nil {
		return nil, err
	}

	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

// Begin ends the phase, and begins the next one.
func (u *Users) Begin(phase string) {
	u.lock.Lock()
	defer u.lock.Unlock()

	now := time.Now()
	u.end(now)
	u.usages = append(u.usages, &Usage{Phase: phase, began: now, last: [3]time.Time{now, now, now}})
}

// end counts silence up to now as a gap, too.
func (u *Users) end(now time.Time) {
	if len(u.usages) == 0 {
		return
	}

	usage := u.usages[len(u.usages)-1]
	usage.Took = now.Sub(usage.began)

	for kind := range usage.last {
		usage.answered(kind, now)
	}
}

func (u *Usage) answered(kind int, now time.Time) {
	gap := now.Sub(u.last[kind])
	u.last[kind] = now

	for i, longest := range []*time.Duration{&u.WriteGap, &u.MembersGap, &u.ReadGap} {
		if i == kind {
			*longest = max(*longest, gap)
		}
	}
}

// End stops the users, reads everything that was acknowledged, and expects that nothing of it is lost. It returns the phases.
func (u *Users) End(ctx context.Context) []Usage {
	GinkgoHelper()
	u.stop()
	u.done.Wait()
	u.lock.Lock()
	defer u.lock.Unlock()
	u.end(time.Now())

	found := (&WriteLog{ns: u.ns, etcd: u.etcd, TLS: u.config}).readPrefix(ctx, usersKeys)
	lost := maps.Clone(u.acked)
	maps.DeleteFunc(lost, func(key string, _ bool) bool { _, is := found[key]; return is })

	usages := make([]Usage, len(u.usages))
	for i, usage := range u.usages {
		usage.Lost = len(lost) + len(u.missing)
		usages[i] = *usage
		AddReportEntry(usageEntry, *usage, ReportEntryVisibilityNever)
	}

	Expect(lost).To(BeEmpty(), "writes that were acknowledged and are gone")
	Expect(u.missing).To(BeEmpty(), "writes that were acknowledged and not seen by a read right after")

	return usages
}

// use does one operation after the other until the context ends.
func (u *Users) use(ctx context.Context, kind int, operation func(context.Context, int) error) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()

	for number := 0; ctx.Err() == nil; number++ {
		err := u.insist(ctx, func(ctx context.Context) error { return operation(ctx, number) })
		if ctx.Err() == nil {
			u.record(kind, err)
		}

		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (u *Users) record(kind int, err error) {
	u.lock.Lock()
	defer u.lock.Unlock()

	usage := u.usages[len(u.usages)-1]

	switch {
	case err != nil:
		usage.Failed++
		usage.LastError = fmt.Sprintf("at %s: %v", time.Now().Format(time.TimeOnly), err)

		return
	case kind == 2:
		usage.Reads++
	default:
		usage.Writes++
	}

	usage.answered(kind, time.Now())
}

// insist tries again until the operation succeeds, or its time is over.
func (*Users) insist(ctx context.Context, operation func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()

	for {
		attempt, cancel := context.WithTimeout(ctx, attemptOfUsers)
		err := operation(attempt)

		cancel()

		if err == nil || ctx.Err() != nil {
			return err
		}

		select { // as fast as clients of etcd try again themselves
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
}

func (u *Users) client(kind int) *clientv3.Client {
	u.lock.Lock()
	defer u.lock.Unlock()

	return u.clients[kind]
}

func (u *Users) write(ctx context.Context, kind, number int) error {
	key := fmt.Sprintf("%s%d/%08d", usersKeys, kind, number)
	if _, err := u.client(kind).Put(ctx, key, "1"); err != nil {
		return err
	}

	u.lock.Lock()
	defer u.lock.Unlock()
	u.acked[key] = true

	if kind == 0 {
		u.newest = key
	}

	return nil
}

// read reads what was acknowledged last.
func (u *Users) read(ctx context.Context) error {
	u.lock.Lock()
	key := u.newest
	u.lock.Unlock()

	if key == "" {
		return nil
	}

	response, err := u.client(0).Get(ctx, key)
	if err != nil {
		return err
	}

	if response.Count == 0 {
		u.lock.Lock()
		defer u.lock.Unlock()
		u.missing = append(u.missing, key)
	}

	return nil
}
