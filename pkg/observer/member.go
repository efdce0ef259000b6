// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Member returns a client of the member in a pod, connected in the way in which it is observed. The error says what is missing
// for that.
func (o *Observer) Member(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error) {
	if o.Etcd == nil {
		return nil, fmt.Errorf("connecting to the member in pod %s: this component connects to no member", pod.Name)
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
