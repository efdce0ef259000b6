// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package stub responds in place of the etcd of every simulated pod, and renews the Leases that its sidecar renews. Each cluster is an
// in-memory etcd of pkg/etcdclient/fake. The servers have the certificates of the pods.
//
// All pods have addresses of the local machine. The address to which a client connects identifies the pod.
//
// What may not live here: the phases of a measurement, and calls that the operator does not send in them.
package stub

import (
	"context"
	"crypto/tls"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

const (
	// clientPort is the port of etcd in all pods.
	clientPort = "2379"
	// databaseSize is the size of the database of a member, and databaseInUse the part that holds data, in bytes.
	databaseSize  = 20 << 20
	databaseInUse = 15 << 20
	// firstRevision is the revision of all clusters before the first call of AdvanceRevisions.
	firstRevision = 1000
)

// member is the etcd and the sidecar of one pod.
type member struct {
	pod client.ObjectKey
	// name is the name of the Etcd, address is the client address, and node is the name of the Node.
	name, address, node string
	// id is derived from the name of the pod, so that it survives a restart.
	id   uint64
	etcd *fake.Cluster
	// secret is the name of the Secret with the certificate of the server. Empty: plaintext.
	secret string
	// config is the configuration of the server. Nil until the first connection.
	config     atomic.Pointer[tls.Config]
	hasPeerTLS bool
	// hasStore is true if the sidecar takes snapshots, and hasFull if it has taken the first full snapshot.
	hasStore, hasFull        bool
	nextHeartbeat, nextDelta time.Time
}

// Stub responds in place of all members.
type Stub struct {
	client  client.Client
	pods    cache.Cache
	withTLS bool
	log     logr.Logger

	lock sync.Mutex
	// byIP also contains the members that do not run any more, until another pod has the address.
	byIP  map[string]*member
	byPod map[client.ObjectKey]*member
	etcds map[string]*fake.Cluster
	// lost are the nodes whose pods do not respond.
	lost map[string]bool
	// changed is closed and replaced when a pod was added.
	changed chan struct{}

	revisionBefore int64
	revisionRate   float64
	revisionSince  time.Time
}

// New returns a Stub. The client renews Leases and reads certificates, without a cache. Pods has an informer for the pods of all Etcds.
// withTLS is true if all members serve clients with TLS.
func New(c client.Client, pods cache.Cache, withTLS bool, log logr.Logger) *Stub {
	return &Stub{
		client: c, pods: pods, withTLS: withTLS, log: log, byIP: map[string]*member{}, byPod: map[client.ObjectKey]*member{}, etcds: map[string]*fake.Cluster{},
		lost: map[string]bool{}, changed: make(chan struct{}), revisionBefore: firstRevision, revisionSince: time.Now(),
	}
}

// Run serves the members until the context ends.
func (s *Stub) Run(ctx context.Context) error {
	informer, err := s.pods.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watching the pods: %w", err)
	}
	handle := func(object any, isDeleted bool) {
		if last, is := object.(toolscache.DeletedFinalStateUnknown); is {
			object = last.Obj
		}
		if pod, is := object.(*corev1.Pod); is {
			s.set(pod, isDeleted)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { handle(object, false) },
		UpdateFunc: func(_, object any) { handle(object, false) },
		DeleteFunc: func(object any) { handle(object, true) },
	}); err != nil {
		return fmt.Errorf("watching the pods: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.serve(ctx, ":"+clientPort, func(net.Addr) {}) })
	group.Go(func() error {
		s.renewLeases(ctx)

		return nil
	})

	return group.Wait()
}

// Lose makes the members on a node stop to respond and to renew their Leases. It returns their Etcds.
func (s *Stub) Lose(node string) []client.ObjectKey {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.lost[node] = true
	var etcds []client.ObjectKey
	for pod, m := range s.byPod {
		if m.node == node {
			etcds = append(etcds, client.ObjectKey{Namespace: pod.Namespace, Name: m.name})
		}
	}

	return etcds
}

func (s *Stub) isLost(m *member) bool {
	s.lock.Lock()
	defer s.lock.Unlock()

	return s.lost[m.node]
}

// AdvanceRevisions makes the revision of each cluster advance by the rate per second. 0: it stays.
func (s *Stub) AdvanceRevisions(rate float64) {
	revision := s.revision()
	s.lock.Lock()
	defer s.lock.Unlock()
	s.revisionBefore, s.revisionRate, s.revisionSince = revision, rate, time.Now()
}

// revision is the revision of all clusters.
func (s *Stub) revision() int64 {
	s.lock.Lock()
	defer s.lock.Unlock()

	return s.revisionBefore + int64(s.revisionRate*time.Since(s.revisionSince).Seconds())
}

// set starts the member of a pod that runs, and stops that of another pod.
func (s *Stub) set(pod *corev1.Pod, isDeleted bool) {
	if pod.Labels[druidv1alpha1.LabelComponentKey] != druidv1alpha1.ComponentNameStatefulSet {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	key := client.ObjectKeyFromObject(pod)
	known := s.byPod[key]
	runs := !isDeleted && pod.DeletionTimestamp == nil && pod.Status.PodIP != "" && pod.Status.Phase == corev1.PodRunning
	if runs && known != nil && known.address == net.JoinHostPort(pod.Status.PodIP, clientPort) {
		return
	}
	if known != nil {
		known.etcd.Stop(known.id)
		delete(s.byPod, key)
	}
	if runs {
		added := s.start(pod)
		s.byIP[pod.Status.PodIP], s.byPod[key] = added, added
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// start returns the member of a pod, which runs in the etcd cluster of its Etcd.
func (s *Stub) start(pod *corev1.Pod) *member {
	name, now := pod.Labels[druidv1alpha1.LabelPartOfKey], time.Now()
	m := &member{
		pod: client.ObjectKeyFromObject(pod), name: name, address: net.JoinHostPort(pod.Status.PodIP, clientPort), node: pod.Spec.NodeName,
		id: hash(pod.Namespace + "/" + pod.Name), nextHeartbeat: now, nextDelta: now.Add(DeltaPeriod),
	}
	for _, volume := range pod.Spec.Volumes {
		m.hasPeerTLS = m.hasPeerTLS || volume.Name == "etcd-peer-server-tls"
		if volume.Secret != nil && volume.Name == "etcd-server-tls" {
			m.secret = volume.Secret.SecretName
		}
	}
	for _, container := range pod.Spec.Containers {
		m.hasStore = m.hasStore || slices.ContainsFunc(container.Args, func(a string) bool { return strings.HasPrefix(a, "--full-snapshot-lease-name=") })
	}
	cluster := pod.Namespace + "/" + name
	if m.etcd = s.etcds[cluster]; m.etcd == nil {
		m.etcd = fake.NewCluster(hash(cluster))
		s.etcds[cluster] = m.etcd
	}
	if slices.ContainsFunc(m.etcd.Members(), func(listed etcdcluster.ListedMember) bool { return listed.ID == m.id }) {
		m.etcd.Move(m.id, m.address)
		m.etcd.Start(m.id)
	} else {
		m.etcd.AddMember(m.id, pod.Name, m.address)
		m.etcd.SetDatabase(m.id, databaseSize, databaseInUse, databaseInUse)
	}
	scheme := "http"
	if m.hasPeerTLS {
		scheme = "https"
	}
	m.etcd.SetPeerURLs(m.id, fmt.Sprintf("%s://%s.%s-peer.%s.svc:2380", scheme, pod.Name, name, pod.Namespace))

	return m
}

// hash returns a number that is never 0.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))

	return h.Sum64() | 1
}

// at returns the member with the IP address, or nil and a channel that is closed when a pod was added.
func (s *Stub) at(ip string) (*member, <-chan struct{}) {
	s.lock.Lock()
	defer s.lock.Unlock()

	return s.byIP[ip], s.changed
}

// running returns the members that run and are not on a lost node.
func (s *Stub) running() []*member {
	s.lock.Lock()
	defer s.lock.Unlock()
	list := make([]*member, 0, len(s.byPod))
	for _, m := range s.byPod {
		if !s.lost[m.node] {
			list = append(list, m)
		}
	}

	return list
}
