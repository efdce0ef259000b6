// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/dbsize"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/schedule"
)

// histories are the sizes of the databases and the full snapshots of all Etcds since the operator became the leader. The zero value is empty.
type histories struct {
	lock sync.Mutex
	all  map[client.ObjectKey]*history
}

// history is that of one Etcd.
type history struct {
	dbsize.History

	snapshots schedule.Excess
}

// addSnapshot adds the newest full snapshot of an Etcd, and returns since when there are far more than its schedule requests. Zero: there are not.
func (h *histories) addSnapshot(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) time.Time {
	h.lock.Lock()
	defer h.lock.Unlock()

	return h.of(client.ObjectKeyFromObject(etcd)).snapshots.Observe(helper.FullSnapshotSchedule(etcd), o.FullSnapshotLease.RenewTime, now)
}

// add adds the observed sizes of an Etcd, and returns when its keys need the quota. 0: it cannot be foreseen.
func (h *histories) add(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) time.Duration {
	h.lock.Lock()
	defer h.lock.Unlock()
	history := h.of(client.ObjectKeyFromObject(etcd))
	history.Add(now, etcdcluster.LargestInUse(o.Etcd))

	return history.QuotaReachedIn(etcdcluster.QuotaOf(new(helper.Quota(etcd)).Value(), o.Etcd))
}

// addSize adds the size in bytes that a member reported in a probe.
func (h *histories) addSize(etcd client.ObjectKey, bytes int64, now time.Time) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.of(etcd).Add(now, bytes)
}

// of returns the history of an Etcd. The caller holds the lock.
func (h *histories) of(etcd client.ObjectKey) *history {
	if h.all == nil {
		h.all = map[client.ObjectKey]*history{}
	}
	if h.all[etcd] == nil {
		h.all[etcd] = &history{}
	}

	return h.all[etcd]
}

// drop drops the history of an Etcd that does not exist any more.
func (h *histories) drop(key client.ObjectKey) {
	h.lock.Lock()
	defer h.lock.Unlock()
	delete(h.all, key)
}
