// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var errNoConnection = errors.New("this component connects to no member")

// Member returns a client of the member in a pod, connected in the way in which it is observed. The error says what is missing
// for that.
func (o *Observer) Member(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error) {
	if o.Etcd == nil {
		return nil, fmt.Errorf("connecting to the member in pod %s: %w", pod.Name, errNoConnection)
	}
	if len(pod.IPs) == 0 {
		return nil, fmt.Errorf("connecting to the member in pod %s: it has no address", pod.Name)
	}
	r := &reader{Observer: o, etcd: etcd}
	target, err := r.target(ctx, endpoint{ordinal: pod.Ordinal, host: pod.IPs[0], port: portOf(pod), secrets: pod.ClientTLS})
	if err != nil {
		return nil, fmt.Errorf("connecting to the member in pod %s: %w", pod.Name, err)
	}

	return o.Etcd.Connect(ctx, target)
}

// ExistingMember returns a client of the member of the joined cluster at an observed endpoint. The observation is the one with the endpoint.
func (o *Observer) ExistingMember(ctx context.Context, etcd *druidv1alpha1.Etcd, observation etcdcluster.Observation, address string) (etcdclient.Client, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || o.Etcd == nil {
		return nil, fmt.Errorf("connecting to the member of the joined cluster at %s: %w", address, cmp.Or(err, errNoConnection))
	}
	r := &reader{Observer: o, etcd: etcd, observation: observation}
	target, err := r.target(ctx, endpoint{host: host, port: port, serverName: host, secrets: r.secretsOfSpec()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the member of the joined cluster at %s: %w", address, err)
	}

	return o.Etcd.Connect(ctx, target)
}
