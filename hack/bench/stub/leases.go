// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

const (
	// heartbeatPeriod is the time between two renewals of the Lease of a member.
	heartbeatPeriod = 10 * time.Second
	// DeltaPeriod is the time between two delta snapshots, as with gardenlet.
	DeltaPeriod = 5 * time.Minute
	// writers is the number of Leases that are renewed at the same time. Each real sidecar is a process of its own.
	writers = 8
)

// renewLeases renews the Leases of all members until the context ends.
func (s *Stub) renewLeases(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	work := &errgroup.Group{}
	work.SetLimit(writers)
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			s.renewDue(ctx, now, work)
		}
	}
}

// renewDue adds the due renewals to the work. A sidecar takes a full snapshot when it starts. The first heartbeat of the stub is
// earlier than that of the sidecar, to shorten the measurement of the creation.
func (s *Stub) renewDue(ctx context.Context, now time.Time, work *errgroup.Group) {
	renew := func(m *member, lease, holder string, annotations map[string]string) {
		work.Go(func() error {
			s.renew(ctx, client.ObjectKey{Namespace: m.pod.Namespace, Name: lease}, holder, annotations)

			return nil
		})
	}
	revision := strconv.FormatInt(s.revision(), 10)
	for _, m := range s.running() {
		if !now.Before(m.nextHeartbeat) {
			m.nextHeartbeat = m.nextHeartbeat.Add(heartbeatPeriod)
			heartbeat := etcdcluster.Heartbeat{MemberID: m.id, ClusterID: m.etcd.ID, Role: druidv1alpha1.EtcdRoleMember}
			if m.etcd.Leader() == m.id {
				heartbeat.Role = druidv1alpha1.EtcdRoleLeader
			}
			renew(m, m.pod.Name, heartbeat.String(), map[string]string{druidv1alpha1.MemberTLSEnabledAnnotation: strconv.FormatBool(m.hasPeerTLS)})
		}
		if m.hasStore && !m.hasFull {
			m.hasFull = true
			renew(m, m.name+"-full-snap", revision, nil)
		}
		if m.hasStore && !now.Before(m.nextDelta) {
			m.nextDelta = m.nextDelta.Add(DeltaPeriod)
			renew(m, m.name+"-delta-snap", revision, nil) // the sidecar renews the Lease also without new revisions
		}
	}
}

// renew renews a Lease as a sidecar does.
func (s *Stub) renew(ctx context.Context, key client.ObjectKey, holder string, annotations map[string]string) {
	patch := map[string]any{"spec": map[string]any{"holderIdentity": holder, "renewTime": metav1.NowMicro()}}
	if len(annotations) > 0 {
		patch["metadata"] = map[string]any{"annotations": annotations}
	}
	content, err := json.Marshal(patch)
	if err == nil {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		err = s.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, content))
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		s.log.Error(err, "Cannot renew a Lease", "lease", key)
	}
}
