// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/panics"
)

const (
	// observationPeriods is how many sync periods may pass until a healthy multi-member cluster is observed again, and maxObservationPeriod the longest
	// time. Some conditions change without an event, for example when a snapshot is overdue.
	observationPeriods   = 8
	maxObservationPeriod = 2 * time.Minute
	// singleObservationPeriods and maxSingleObservationPeriod are the same for a single member. A late observation affects no other member.
	singleObservationPeriods   = 20
	maxSingleObservationPeriod = evidence.Period
	// probeTimeout bounds the time of a probe. If it expires, an observation follows, which has its own timeout.
	probeTimeout = time.Second
	// slowObservation is the duration of an observation after which the members are not probed. Members that respond slowly would exceed probeTimeout.
	slowObservation = time.Second
	// maxIncrease is the part of the quota by which a database may increase until the cluster is observed again.
	maxIncrease = 0.05
)

// baseline is what the last observation of a healthy cluster, or of one without members, has found. While the members report the same, no observation is
// necessary.
type baseline struct {
	// resourceVersion is that of the Etcd, whose status has the result of the observation.
	resourceVersion string
	// until is when the cluster is observed again.
	until time.Time
	// members are the members with their status, sorted by ordinal. Empty: there are none, and nothing is probed.
	members []probed
	// probes is the number of probes since the observation.
	probes int
	// quota is the quota of the databases in bytes.
	quota int64
	// revision is the recorded revision, and recordedAt when it was recorded.
	revision   int64
	recordedAt time.Time
}

// probed is a member, and its status in the last observation.
type probed struct {
	// pod has only what a connection needs.
	pod    etcdcluster.Pod
	status etcdcluster.EndpointStatus
}

// baselines are those of all Etcds. The zero value is empty.
type baselines struct {
	mutex sync.Mutex
	all   map[client.ObjectKey]*tracked
}

// tracked is the baseline of one Etcd, and the number of its events.
type tracked struct {
	events   uint64
	baseline *baseline
}

// of returns the entry of an Etcd. The caller holds the mutex.
func (b *baselines) of(etcd client.ObjectKey) *tracked {
	if b.all == nil {
		b.all = map[client.ObjectKey]*tracked{}
	}
	if b.all[etcd] == nil {
		b.all[etcd] = &tracked{}
	}

	return b.all[etcd]
}

// get returns the baseline of an Etcd, and the number of its events. Nil: it has none.
func (b *baselines) get(etcd client.ObjectKey) (*baseline, uint64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	found := b.of(etcd)

	return found.baseline, found.events
}

// set sets the baseline of an observation that began after a number of events. It is discarded if another event arrived meanwhile.
func (b *baselines) set(etcd client.ObjectKey, next *baseline, events uint64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if found := b.of(etcd); found.events == events {
		found.baseline = next
	} else {
		found.baseline = nil
	}
}

// recordEvent discards the baseline of an Etcd. Each observation creates an entry before it begins. Without one there is nothing to discard.
func (b *baselines) recordEvent(etcd client.ObjectKey) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if found := b.all[etcd]; found != nil {
		found.events++
		found.baseline = nil
	}
}

// drop removes an Etcd that does not exist any more.
func (b *baselines) drop(etcd client.ObjectKey) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.all, etcd)
}

// recordEvents returns a function that maps an object to requests, and discards the baselines of their Etcds.
func (b *baselines) recordEvents(requestsFor handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		requests := requestsFor(ctx, object)
		for _, request := range requests {
			b.recordEvent(request.NamespacedName)
		}

		return requests
	}
}

// enqueueLater returns a handler that discards the baselines, and enqueues the Etcds after a time. It ignores
// creations: a cluster without a baseline is observed in each sync period.
func (b *baselines) enqueueLater(requestsFor handler.MapFunc, after time.Duration) handler.EventHandler {
	enqueue := func(ctx context.Context, object client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, request := range b.recordEvents(requestsFor)(ctx, object) {
			queue.AddAfter(request, after)
		}
	}

	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(ctx, e.ObjectNew, queue)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(ctx, e.Object, queue)
		},
	}
}

// baselineFor returns the baseline for an observation that began at a time, and after which the status did not change. Nil: something is in progress, or the
// cluster has members and is not healthy. Each periodic reconciliation then observes it.
func (r *Reconciler) baselineFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, began time.Time) *baseline {
	now := r.Clock.Now()
	if r.Members == nil || now.Sub(began) >= slowObservation || isPending(o) || !hasNoMembers(o) && !isHealthy(etcd, o) || wasRenewedRecently(o, now) {
		return nil
	}
	until := r.observationDueAt(etcd, o, began)
	if !until.After(now) {
		return nil
	}
	next := &baseline{resourceVersion: etcd.ResourceVersion, until: until, quota: etcdcluster.QuotaOf(new(helper.Quota(etcd)).Value(), o.Etcd)}
	if recorded := o.State.Evidence; recorded != nil {
		next.revision, next.recordedAt = recorded.HighestRevision, recorded.At
	}
	for _, pod := range o.Pods {
		status := o.Etcd.Endpoint(pod.Ordinal)
		if status == nil || !status.Healthy || len(status.Errors) > 0 || !pod.Ready || pod.Deleting {
			return nil
		}
		next.members = append(next.members, probed{
			pod:    etcdcluster.Pod{Name: pod.Name, Ordinal: pod.Ordinal, IPs: pod.IPs, ClientPort: pod.ClientPort, ClientTLS: pod.ClientTLS},
			status: *status,
		})
	}

	return next
}

// observationDueAt returns when a healthy cluster is observed again after an observation that began at a time. It is in the past if a delta snapshot was due.
// The condition can then change at any time, for example when a full snapshot no longer replaces the delta snapshot. Without members there is no snapshot.
func (r *Reconciler) observationDueAt(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, began time.Time) time.Time {
	due := began.Add(min(observationPeriods*r.Config.SyncPeriod, maxObservationPeriod))
	if etcd.Spec.Replicas <= 1 {
		due = began.Add(min(singleObservationPeriods*r.Config.SyncPeriod, maxSingleObservationPeriod))
	}
	if recorded := o.State.Evidence; recorded != nil {
		if record := recorded.At.Add(evidence.Period); record.After(r.Clock.Now()) && record.Before(due) {
			due = record
		}
	}
	if late := conditions.DeltaSnapshotLateAt(etcd, o); !late.IsZero() && late.Before(due) && !hasNoMembers(o) {
		due = late
	}

	return due
}

// isHealthy is true if all members exist, and no condition of this controller reports a problem or is unknown. BackupReady may be unknown: the Leases of
// snapshots have events.
func isHealthy(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	members := int(etcd.Spec.Replicas)
	isProblem := func(c druidv1alpha1.Condition) bool {
		isUnknown := c.Status != druidv1alpha1.ConditionTrue && c.Status != druidv1alpha1.ConditionFalse

		return slices.Contains(conditions.CareTypes(), c.Type) && (conditions.IsAbnormal(&c) || isUnknown && c.Type != druidv1alpha1.ConditionTypeBackupReady)
	}
	isComplete := members > 0 && len(o.Pods) == members && len(o.Etcd.MemberList) == members && len(o.Etcd.Members) == members

	return isComplete && canRecord(o) && !slices.ContainsFunc(etcd.Status.Conditions, isProblem)
}

// hasNoMembers is true if no member exists, and none can start without an event of this controller. The cluster is hibernated, or not created yet.
// Thousands of Etcds that are created at once wait for minutes. Their periodic observations would slow the creation down.
func hasNoMembers(o etcdcluster.Observation) bool {
	return len(o.Pods) == 0 && len(o.Etcd.MemberList) == 0 && (!o.StatefulSet.Exists || o.StatefulSet.SpecReplicas == 0)
}

// isPending is true if something is in progress or could not be read that no event of this controller reports.
func isPending(o etcdcluster.Observation) bool {
	isUnbound := func(c etcdcluster.Claim) bool { return c.Exists && (!c.Bound || c.Capacity < c.Requested) }

	return len(o.Failures) > 0 || len(o.Etcd.Alarms) > 0 || o.FullSnapshotLease.AwaitsReset || slices.ContainsFunc(o.Claims, isUnbound)
}

// wasRenewedRecently is true if a snapshot was recorded so recently that its revision is not compared with that of the members yet.
func wasRenewedRecently(o etcdcluster.Observation, now time.Time) bool {
	return slices.ContainsFunc([]etcdcluster.Lease{o.FullSnapshotLease, o.DeltaSnapshotLease}, func(lease etcdcluster.Lease) bool {
		return now.Sub(lease.RenewTime) <= evidence.MaxClockSkew
	})
}

// probe is true if no observation is due, and the members of an Etcd report the same as in the baseline. Each member of a multi-member cluster completes a
// linearizable read. One of them, in rotation, also returns its endpoint status. One is enough, because all members know the alarms. The responses to the
// reads contain the term, and each new leader increases it. See probeSingle for a single member. Without members, it sends no request.
func (r *Reconciler) probe(ctx context.Context, stored, etcd *druidv1alpha1.Etcd, expected *baseline) bool {
	now := r.Clock.Now()
	isComparisonDue := r.Config.DataComparisonPeriod > 0 && len(expected.members) > 1 && r.comparisons.isDue(etcd.UID, r.Config.DataComparisonPeriod, false, now)
	if expected.resourceVersion != stored.ResourceVersion || !now.Before(expected.until) || isComparisonDue {
		return false
	}
	if len(expected.members) == 0 {
		return true
	}
	if !r.areLeasesRenewed(ctx, etcd, now) {
		return false
	}
	probing, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var isChanged atomic.Bool
	var group sync.WaitGroup
	for i, member := range expected.members {
		group.Go(func() {
			began := r.Clock.Now()
			isSame, err := r.tryProbe(probing, etcd, expected, member, i == expected.probes%len(expected.members))
			if !isSame || err != nil {
				isChanged.Store(true)
				cancel()
			}
			observer.RecordRequest(ctx, r.Clock.Now().Sub(began))
		})
	}
	group.Wait()
	expected.probes++

	return !isChanged.Load()
}

// areLeasesRenewed is true if the sidecars have renewed the Leases of their members within the threshold.
func (r *Reconciler) areLeasesRenewed(ctx context.Context, etcd *druidv1alpha1.Etcd, now time.Time) bool {
	leases := &coordinationv1.LeaseList{}
	if err := r.Client.List(ctx, leases, client.InNamespace(etcd.Namespace), client.MatchingLabels(helper.DefaultLabels(etcd)), client.UnsafeDisableDeepCopy); err != nil {
		return false
	}

	return !slices.ContainsFunc(leases.Items, func(lease coordinationv1.Lease) bool {
		return lease.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameMemberLease &&
			lease.Spec.RenewTime != nil && now.Sub(lease.Spec.RenewTime.Time) > r.Config.UnknownThreshold
	})
}

// tryProbe is probeMember. The error is that of a panic.
func (r *Reconciler) tryProbe(ctx context.Context, etcd *druidv1alpha1.Etcd, expected *baseline, member probed, withStatus bool) (isSame bool, err error) {
	defer panics.Recover(ctx, &err)

	return r.probeMember(ctx, etcd, expected, member, withStatus), nil
}

// probeMember is true if a member reports the same as in the baseline. For a multi-member cluster, withStatus also requests the endpoint status.
func (r *Reconciler) probeMember(ctx context.Context, etcd *druidv1alpha1.Etcd, expected *baseline, member probed, withStatus bool) bool {
	connected, err := r.Members.Member(ctx, etcd, member.pod)
	if err != nil {
		return false
	}
	if len(expected.members) == 1 {
		return r.probeSingle(ctx, etcd, expected, member, connected)
	}
	if header, err := connected.Read(ctx); err != nil || expected.differs(member.status, header, r.Clock.Now()) {
		return false
	}

	return !withStatus || r.probeStatus(ctx, etcd, expected, member, connected)
}

// probeSingle is true if the only member reports the same as in the baseline. Its probes alternate between two requests, and both report alarms. The request
// for its health needs no gRPC connection, and includes a linearizable read. The endpoint status contains the size of the database.
func (r *Reconciler) probeSingle(ctx context.Context, etcd *druidv1alpha1.Etcd, expected *baseline, member probed, connected etcdclient.Client) bool {
	if expected.probes%2 == 0 {
		return connected.Health(ctx) == nil
	}

	return r.probeStatus(ctx, etcd, expected, member, connected)
}

// probeStatus is true if the endpoint status of a member is the same as in the baseline.
func (r *Reconciler) probeStatus(ctx context.Context, etcd *druidv1alpha1.Etcd, expected *baseline, member probed, connected etcdclient.Client) bool {
	status, alarms, err := connected.EndpointStatus(ctx)
	if err != nil || len(alarms) > 0 || expected.hasOtherStatus(member.status, status) || expected.isRecordDue(status.Revision, r.Clock.Now()) {
		return false
	}
	r.histories.addSize(client.ObjectKeyFromObject(etcd), status.DBSizeInUse, r.Clock.Now())

	return true
}

// differs is true if the response to a read shows that a new observation is necessary. A higher revision is normal, until it is recorded again.
func (b *baseline) differs(before etcdcluster.EndpointStatus, read etcdclient.ResponseHeader, at time.Time) bool {
	if read == (etcdclient.ResponseHeader{}) {
		return false // etcd denies permission
	}
	isOther := read.MemberID != before.MemberID || read.ClusterID != before.ClusterID || read.RaftTerm != before.RaftTerm

	return isOther || read.Revision < before.Revision || b.isRecordDue(read.Revision, at)
}

// isRecordDue is true if a revision must be recorded at a time.
func (b *baseline) isRecordDue(revision int64, at time.Time) bool {
	return revision > b.revision && at.Sub(b.recordedAt) >= evidence.Period
}

// hasOtherStatus is true if an endpoint status shows that a new observation is necessary. The databases become larger while clients write.
func (b *baseline) hasOtherStatus(before, now etcdcluster.EndpointStatus) bool {
	isSame := now.MemberID == before.MemberID && now.ClusterID == before.ClusterID && now.LeaderID == before.LeaderID && now.RaftTerm == before.RaftTerm &&
		now.Learner == before.Learner && now.Version == before.Version && now.DBSizeQuota == before.DBSizeQuota && len(now.Errors) == 0
	increase := max(now.DBSizeInUse-before.DBSizeInUse, now.DBSize-before.DBSize)

	return !isSame || now.Revision < before.Revision || float64(increase) > maxIncrease*float64(b.quota)
}
