// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const (
	// comparisonPause is the time between two comparisons while there is a difference or the alarm CORRUPT, and after a comparison that was not
	// possible. A shorter period of the configuration applies instead.
	comparisonPause = time.Minute
	// failurePause is the same after a member has returned no hash, for example because its database is too large for the timeout. The member may not
	// have completed writes meanwhile.
	failurePause = 10 * time.Minute
)

// comparisons are the times of the next comparisons by the UID of the Etcd. They are not recorded, so that a healthy cluster causes no writes. After a
// restart of the operator, the first comparison of each Etcd is at a random time within the period. The zero value has no times.
type comparisons struct {
	mutex sync.Mutex
	times map[types.UID]comparisonTimes
}

// comparisonTimes are the times of the next comparison of an Etcd.
type comparisonTimes struct {
	// next is when the data is compared.
	next time.Time
	// urgent is when it is compared while there is a difference or the alarm CORRUPT.
	urgent time.Time
}

// isDue is true if the data of an Etcd is to be compared now.
func (c *comparisons) isDue(uid types.UID, period time.Duration, isUrgent bool, now time.Time) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	times, known := c.times[uid]
	if !known {
		times.next = now.Add(rand.N(period)) // #nosec G404 -- it spreads the load
		c.set(uid, times)
	}

	return isUrgent && !now.Before(times.urgent) || !now.Before(times.next)
}

// schedule sets the times of the next comparison.
func (c *comparisons) schedule(uid types.UID, times comparisonTimes) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.set(uid, times)
}

func (c *comparisons) set(uid types.UID, times comparisonTimes) {
	if c.times == nil {
		c.times = map[types.UID]comparisonTimes{}
	}
	c.times[uid] = times
}

func (c *comparisons) remove(uid types.UID) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.times, uid)
}

// compareData compares the data of all voting members if that is due, and records a difference, or that there is none any more. The etcd controller
// decides what is done about a confirmed difference. If all members have the same data, the alarm CORRUPT is disarmed. A recorded difference is
// deleted if the comparison is disabled, or if the compared members are not those of the cluster any more. The observation gets what was recorded.
func (r *Reconciler) compareData(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation) error {
	period, alarms := r.Config.DataComparisonPeriod, o.Etcd.AlarmsOf(etcdcluster.AlarmCorrupt)
	isUrgent := o.State.Inconsistency != nil || len(alarms) > 0
	switch {
	case r.Members == nil || helper.IsHibernated(etcd) || !canRecord(*o):
		return nil
	case period == 0, consistency.IsObsolete(o.State.Inconsistency, o.Etcd.MemberList):
		return r.recordInconsistency(ctx, etcd, o, nil)
	case !r.comparisons.isDue(etcd.UID, period, isUrgent, r.Clock.Now()):
		return nil
	}
	result, err := r.compare(ctx, etcd, *o)
	now := r.Clock.Now()
	soon := now.Add(min(period, comparisonPause))
	switch {
	case errors.Is(err, consistency.ErrNotComparable):
		r.comparisons.schedule(etcd.UID, comparisonTimes{next: soon, urgent: soon})
		logf.FromContext(ctx).V(1).Info("Data of the members not compared", "reason", err.Error())

		return nil
	case err != nil:
		later := now.Add(min(period, failurePause))
		r.comparisons.schedule(etcd.UID, comparisonTimes{next: later, urgent: later})
		logf.FromContext(ctx).Info("Comparison of the data of the members failed", "reason", err.Error())

		return nil
	}
	r.comparisons.schedule(etcd.UID, comparisonTimes{next: now.Add(wait.Jitter(period, 0.1)), urgent: soon})
	if err := r.recordInconsistency(ctx, etcd, o, consistency.Next(o.State.Inconsistency, result, now)); err != nil {
		r.comparisons.schedule(etcd.UID, comparisonTimes{next: now, urgent: now}) // the next reconciliation compares again

		return err
	}
	if result.IsEqual() && len(alarms) > 0 {
		return r.disarm(ctx, etcd, *o, alarms)
	}

	return nil
}

// compare compares the data of all voting members. It returns ErrNotComparable if there is only one.
func (r *Reconciler) compare(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (consistency.Comparison, error) {
	voters, revision, err := consistency.VotersOf(etcd, o)
	if err == nil && len(voters) == 1 {
		err = fmt.Errorf("%w: there is one voting member", consistency.ErrNotComparable)
	}
	if err != nil {
		return consistency.Comparison{}, err
	}

	return consistency.Compare(ctx, voters, revision, func(m consistency.Member) (consistency.Hasher, error) {
		pod := o.PodFor(m.Ordinal)
		if pod == nil {
			return nil, fmt.Errorf("%w: member %s has no pod", consistency.ErrNotComparable, m.Name)
		}

		return r.Members.Member(ctx, etcd, *pod)
	})
}

// recordInconsistency records the result of a comparison. The condition DataConsistent reports it.
func (r *Reconciler) recordInconsistency(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation, next *state.Inconsistency) error {
	if o.State.Inconsistency == nil && next == nil {
		return nil
	}

	return r.record(ctx, etcd, o, func(s *state.State) { s.Inconsistency = next })
}

// disarm disarms alarms of type CORRUPT through any healthy member. It waits while an alarm of another type is raised.
func (r *Reconciler) disarm(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, alarms []etcdcluster.Alarm) error {
	var failure error
	for _, pod := range o.Pods {
		if status := o.Etcd.Endpoint(pod.Ordinal); pod.Deleting || status == nil || !status.Healthy {
			continue
		}
		member, err := r.Members.Member(ctx, etcd, pod)
		for _, alarm := range alarms {
			if err == nil {
				err = member.Disarm(ctx, alarm)
			}
		}
		switch {
		case err == nil:
			r.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, "DisarmedAlarm", actionCare, "All voting members have the same data: the alarm CORRUPT was disarmed")

			return nil
		case errors.Is(err, etcdclient.ErrOtherAlarm):
			logf.FromContext(ctx).Info("Alarm CORRUPT not disarmed", "reason", err.Error())

			return nil
		}
		failure = errors.Join(failure, err)
	}

	return failure
}
