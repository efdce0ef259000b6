// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package stub responds in place of the etcd and the sidecar of every simulated pod. It answers the calls that the operator makes, with
// the certificates of the pod, and renews the Leases that the sidecar renews.
//
// All pods have addresses of the local machine. The address to which a client connects identifies the pod.
package stub

import (
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Names of volumes of an etcd pod, and arguments of its sidecar.
const (
	volumeClientServer   = "etcd-server-tls"
	volumePeerServer     = "etcd-peer-server-tls"
	volumeBackupServer   = "backup-restore-server-tls"
	argumentSnapshotName = "--full-snapshot-lease-name="
)

// member is the etcd and the sidecar of one pod.
type member struct {
	pod     client.ObjectKey
	cluster string
	node    string
	// id and clusterID are derived from the names, so that they survive a restart of the pod.
	id, clusterID uint64
	// clientSecret, peerSecret and backupSecret are the names of the Secrets with the certificates. Empty: plaintext.
	clientSecret, peerSecret, backupSecret string
	// hasStore is true if the sidecar takes snapshots.
	hasStore bool
	started  time.Time
	// tlsConfigs are the configurations of the servers by the name of the Secret. As with a real member, a client resumes its TLS sessions until
	// the pod restarts: the keys of the session tickets belong to the configuration.
	tlsConfigs sync.Map
}

// registry knows the member of each address.
type registry struct {
	lock     sync.Mutex
	byIP     map[string]*member
	byPod    map[client.ObjectKey]string
	clusters map[string][]*member
	// lost are the nodes whose pods do not respond.
	lost map[string]bool
	// changed is closed and replaced when a pod was added.
	changed chan struct{}
}

func newRegistry() *registry {
	return &registry{
		byIP: map[string]*member{}, byPod: map[client.ObjectKey]string{}, clusters: map[string][]*member{},
		lost: map[string]bool{}, changed: make(chan struct{}),
	}
}

// isEtcd returns whether the pod has an etcd and a sidecar.
func isEtcd(pod *corev1.Pod) bool {
	return pod.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameStatefulSet
}

// set adds or replaces a pod that runs, and removes another one.
func (r *registry) set(pod *corev1.Pod, now time.Time) {
	if !isEtcd(pod) {
		return
	}
	key := client.ObjectKeyFromObject(pod)
	r.lock.Lock()
	defer r.lock.Unlock()
	if pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		r.remove(key)

		return
	}
	if r.byPod[key] == pod.Status.PodIP {
		return
	}
	r.remove(key)
	added := memberOf(pod, now)
	r.byIP[pod.Status.PodIP], r.byPod[key] = added, pod.Status.PodIP
	r.clusters[added.cluster] = append(r.clusters[added.cluster], added)
	slices.SortFunc(r.clusters[added.cluster], func(a, b *member) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *registry) delete(pod *corev1.Pod) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.remove(client.ObjectKeyFromObject(pod))
}

func (r *registry) remove(key client.ObjectKey) {
	ip, known := r.byPod[key]
	if !known {
		return
	}
	removed := r.byIP[ip]
	delete(r.byPod, key)
	delete(r.byIP, ip)
	r.clusters[removed.cluster] = slices.DeleteFunc(r.clusters[removed.cluster], func(m *member) bool { return m == removed })
}

// at returns the member of the address, or nil and a channel that is closed when a pod was added.
func (r *registry) at(ip string) (*member, <-chan struct{}) {
	r.lock.Lock()
	defer r.lock.Unlock()

	return r.byIP[ip], r.changed
}

// members returns all members of a cluster that run, the leader first.
func (r *registry) members(cluster string) []*member {
	r.lock.Lock()
	defer r.lock.Unlock()

	return slices.DeleteFunc(slices.Clone(r.clusters[cluster]), func(m *member) bool { return r.lost[m.node] })
}

// all returns all members that run.
func (r *registry) all() []*member {
	r.lock.Lock()
	defer r.lock.Unlock()
	list := make([]*member, 0, len(r.byIP))
	for _, m := range r.byIP {
		if !r.lost[m.node] {
			list = append(list, m)
		}
	}

	return list
}

func (r *registry) lose(node string, lost bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.lost[node] = lost
}

func (r *registry) isLost(m *member) bool {
	r.lock.Lock()
	defer r.lock.Unlock()

	return r.lost[m.node]
}

func memberOf(pod *corev1.Pod, now time.Time) *member {
	etcd := pod.Labels[druidv1alpha1.LabelPartOfKey]
	m := &member{
		pod: client.ObjectKeyFromObject(pod), cluster: pod.Namespace + "/" + etcd, node: pod.Spec.NodeName, started: now,
		id: hash(pod.Namespace + "/" + pod.Name), clusterID: hash(pod.Namespace + "/" + etcd),
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		switch volume.Name {
		case volumeClientServer:
			m.clientSecret = volume.Secret.SecretName
		case volumePeerServer:
			m.peerSecret = volume.Secret.SecretName
		case volumeBackupServer:
			m.backupSecret = volume.Secret.SecretName
		}
	}
	for _, container := range pod.Spec.Containers {
		m.hasStore = m.hasStore || slices.ContainsFunc(container.Args, func(a string) bool { return strings.HasPrefix(a, argumentSnapshotName) })
	}

	return m
}

// hash returns a number that is never 0.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))

	return h.Sum64() | 1
}

// etcdName is the name of the member's Etcd.
func (m *member) etcdName() string {
	_, name, _ := strings.Cut(m.cluster, "/")

	return name
}

// url returns a URL of the member.
func (m *member) url(secret, port string) string {
	scheme := "http://"
	if secret != "" {
		scheme = "https://"
	}

	return scheme + m.pod.Name + "." + m.etcdName() + "-peer." + m.pod.Namespace + ".svc:" + port
}

// isCurrent returns whether the member still runs.
func (r *registry) isCurrent(m *member) bool {
	r.lock.Lock()
	defer r.lock.Unlock()

	return r.byIP[r.byPod[m.pod]] == m
}
