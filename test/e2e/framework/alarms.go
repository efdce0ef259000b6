// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	corev1 "k8s.io/api/core/v1"
)

// RaiseCorrupt raises the alarm CORRUPT for an unknown member, as etcd does when it finds different data. etcd then rejects all writes.
func (l *WriteLog) RaiseCorrupt(ctx context.Context) {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	Eventually(func() error {
		call, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()

		_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(call, &etcdserverpb.AlarmRequest{
			Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_CORRUPT,
		})

		return err
	}).WithContext(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval).Should(Succeed(), l.ns.State)
}

// MoveLeaderTo transfers the leadership to the member in a pod, unless it leads already.
func (l *WriteLog) MoveLeaderTo(ctx context.Context, next *corev1.Pod, others ...*corev1.Pod) {
	GinkgoHelper()

	status := l.status(ctx, next)
	for _, pod := range others {
		if l.status(ctx, pod).Header.MemberId != status.Leader {
			continue
		}

		client := l.connectTo(ctx, pod, l.credentials(ctx))
		defer client.Close()

		call, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()

		_, err := client.MoveLeader(call, status.Header.MemberId)
		Expect(err).NotTo(HaveOccurred(), l.ns.State)
	}

	Eventually(func() uint64 { return l.status(ctx, next).Leader }).WithContext(ctx).WithPolling(PollInterval).Should(Equal(status.Header.MemberId), l.ns.State)
}

// status returns the status of the member in a pod.
func (l *WriteLog) status(ctx context.Context, pod *corev1.Pod) *etcdserverpb.StatusResponse {
	GinkgoHelper()

	client := l.connectTo(ctx, pod, l.credentials(ctx))
	defer client.Close()

	call, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	status, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Status(call, &etcdserverpb.StatusRequest{})
	Expect(err).NotTo(HaveOccurred(), l.ns.State)

	return status
}
