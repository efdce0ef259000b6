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
)

// histories are the sizes of the databases of all Etcds since the operator became the leader. The zero value is empty.
type histories struct {
	lock sync.Mutex
	all  map[client.ObjectKey]*dbsize.History
}

// add adds the observed sizes of an Etcd, and returns when its keys need the quota. 0: it cannot be foreseen.
func (h *histories) add(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) time.Duration {
	h.lock.Lock()
	defer h.lock.Unlock()
	key := client.ObjectKeyFromObject(etcd)
	if h.all == nil {
		h.all = map[client.ObjectKey]*dbsize.History{}
	}
	if h.all[key] == nil {
		h.all[key] = &dbsize.History{}
	}
	h.all[key].Add(now, etcdcluster.LargestInUse(o.Etcd))

	return h.all[key].QuotaReachedIn(etcdcluster.QuotaOf(new(helper.Quota(etcd)).Value(), o.Etcd))
}

// drop drops the sizes of an Etcd that does not exist any more.
func (h *histories) drop(key client.ObjectKey) {
	h.lock.Lock()
	defer h.lock.Unlock()
	delete(h.all, key)
}
