// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errStandby ends the attempt of a standby process to renew the leader election.
var errStandby = errors.New("this operator is standby")

// NewLock returns the lock of the leader election, which all instances of this operator share, however they are installed.
// Standby instances take no part. timeout limits each request. It must be shorter than the renew deadline of the lease.
func NewLock(config *rest.Config, lease client.ObjectKey, timeout time.Duration, guard *Guard) (resourcelock.Interface, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this instance: %w", err)
	}
	// AddUserAgent changes its argument. The timeout would also end each watch of a client with the same configuration.
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.Timeout = timeout
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, lease.Namespace, lease.Name, core, coordination, resourcelock.ResourceLockConfig{
		Identity: hostname + "_" + string(uuid.NewUUID()) + identityMark,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the election: %w", err)
	}

	return &guardedLock{Interface: lock, guard: guard}, nil
}

// guardedLock prevents the election of a standby process. To such a process another holder always appears to hold the lease.
type guardedLock struct {
	resourcelock.Interface

	guard *Guard
}

// Get implements resourcelock.Interface.
func (l *guardedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.guard.StandbyReason() == "" {
		return l.Interface.Get(ctx)
	}
	now := metav1.Now()
	record := &resourcelock.LeaderElectionRecord{
		HolderIdentity: "standby instance of gardener-extension-etcd-druid", LeaseDurationSeconds: 60, AcquireTime: now, RenewTime: now,
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the leader election record: %w", err)
	}

	return record, raw, nil
}

// Update implements resourcelock.Interface. A standby process may still release the lease.
func (l *guardedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == l.Identity() && l.guard.StandbyReason() != "" {
		return errStandby
	}

	return l.Interface.Update(ctx, record)
}
