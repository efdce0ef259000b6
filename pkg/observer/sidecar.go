// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// Sidecar returns a client of the sidecar in a member's pod, with the TLS that the pod itself mounts. The sidecar in the
// pod of the etcd leader takes snapshots. The error names what is missing.
func (o *Observer) Sidecar(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (sidecar.Client, error) {
	if o.Sidecars == nil {
		return nil, fmt.Errorf("connecting to the sidecar in pod %s: this component connects to no sidecar", pod.Name)
	}
	if len(pod.IPs) == 0 {
		return nil, fmt.Errorf("connecting to the sidecar in pod %s: it has no address", pod.Name)
	}
	target := sidecar.Target{
		Address: net.JoinHostPort(pod.IPs[0], strconv.Itoa(int(helper.BackupPort(etcd)))),
		// The address is of no use to verify the sidecar, this name is in every sidecar's certificate.
		ServerName: helper.LocalHostName(etcd),
	}
	if pod.TLS.BackupServer != "" {
		ca := &corev1.Secret{}
		r := &reader{Observer: o, etcd: etcd}
		if err := o.APIReader.Get(ctx, r.key(pod.TLS.BackupCA), ca); err != nil {
			return nil, fmt.Errorf("connecting to the sidecar in pod %s: reading Secret %s: %w", pod.Name, pod.TLS.BackupCA, err)
		}
		var err error
		if target.CA, err = r.bundleOf(ca); err != nil {
			return nil, fmt.Errorf("connecting to the sidecar in pod %s: %w", pod.Name, err)
		}
	}

	return o.Sidecars.Connect(target)
}
