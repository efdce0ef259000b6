// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// members simulates the etcd cluster of a namespace. Each pod becomes a voting member as soon as it is ready.
type members struct {
	namespace string

	lock   sync.Mutex
	names  []string // of voting members. The member ID is the index plus 1.
	leader uint64
}

var _ etcdclient.Connector = (*members)(nil)

// Connect implements etcdclient.Connector.
func (m *members) Connect(_ context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	host, _, err := net.SplitHostPort(target.Address)
	return &memberClient{members: m, host: host}, err
}

// Disconnect implements etcdclient.Connector.
func (*members) Disconnect(etcdclient.Target) {}

// observe adds ready pods as members, elects a leader, and returns the ready pods by name.
func (m *members) observe(ctx context.Context) (map[string]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := env.Client.List(ctx, list, client.InNamespace(m.namespace)); err != nil {
		return nil, err
	}
	ready := map[string]*corev1.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready[pod.Name] = pod
			}
		}
		if ready[pod.Name] != nil && !slices.Contains(m.names, pod.Name) {
			m.names = append(m.names, pod.Name)
		}
	}
	alive := func(id uint64) bool { return id != 0 && ready[m.names[id-1]] != nil }
	switch {
	case !etcdcluster.IsQuorate(len(ready), len(m.names)):
		m.leader = 0
	case !alive(m.leader):
		for id := range uint64(len(m.names)) {
			if alive(id + 1) {
				m.leader = id + 1
				break
			}
		}
	}
	return ready, nil
}

type memberClient struct {
	etcdclient.Client // nil: unsupported methods panic

	*members
	host string
}

// self returns the ID of the member at the address of the client, and the ready pods. It fails if no ready pod has the address.
func (c *memberClient) self(ctx context.Context) (uint64, map[string]*corev1.Pod, error) {
	ready, err := c.observe(ctx)
	if err != nil {
		return 0, nil, err
	}
	for i, name := range c.names {
		if pod := ready[name]; pod != nil && pod.Status.PodIP == c.host {
			return uint64(i) + 1, ready, nil
		}
	}
	return 0, nil, fmt.Errorf("%s: %w", c.host, etcdclient.ErrUnreachable)
}

// Status implements etcdclient.Client.
func (c *memberClient) Status(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	id, _, err := c.self(ctx)
	return etcdcluster.EndpointStatus{Reachable: err == nil, MemberID: id, ClusterID: 1, LeaderID: c.leader, Healthy: c.leader != 0, Version: "3.4.34"}, nil, err
}

// MemberList implements etcdclient.Client.
func (c *memberClient) MemberList(ctx context.Context) ([]etcdcluster.ListedMember, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	_, ready, err := c.self(ctx)
	if err != nil || c.leader == 0 {
		return nil, errors.Join(err, errors.New("no quorum"))
	}
	var listed []etcdcluster.ListedMember
	for i, name := range c.names {
		scheme := "http"
		if pod := ready[name]; pod != nil && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "etcd-peer-ca" }) {
			scheme = "https"
		}
		statefulSet := name[:strings.LastIndex(name, "-")]
		listed = append(listed, etcdcluster.ListedMember{
			ID: uint64(i) + 1, Name: name, PeerURLs: []string{fmt.Sprintf("%s://%s.%s-peer.%s.svc:2380", scheme, name, statefulSet, c.namespace)},
		})
	}
	return listed, nil
}

// MoveLeader implements etcdclient.Client.
func (c *memberClient) MoveLeader(ctx context.Context, to uint64) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	id, ready, err := c.self(ctx)
	if err != nil || id != c.leader || ready[c.names[to-1]] == nil {
		return errors.Join(err, errors.New("moving the leader: the member is not the leader, or the target is not ready"))
	}
	c.leader = to
	return nil
}
