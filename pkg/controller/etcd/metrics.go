// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var (
	stepsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "etcd_druid_steps_total",
		Help: "Executed steps of an Etcd, such as the eviction of a pod, by their kind and outcome.",
	}, []string{"etcd_namespace", "etcd", "step", "outcome"})
	operationsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "etcd_druid_operations_total",
		Help: "Operations on an Etcd that have ended, such as a rolling update, by their kind and outcome.",
	}, []string{"etcd_namespace", "etcd", "kind", "outcome"})
	operationDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "etcd_druid_operation_duration_seconds",
		Help:    "Duration of operations on Etcds until their end, since the condition Reconciled turned False, by their kind and outcome.",
		Buckets: []float64{5, 10, 20, 40, 60, 120, 300, 600, 1800, 3600, 4 * 3600},
	}, []string{"kind", "outcome"})
)

func init() {
	metrics.Registry.MustRegister(stepsTotal, operationsTotal, operationDuration, backoffsTotal)
}

// The outcomes of steps and operations.
const (
	outcomeDone      = "done"
	outcomeBlocked   = "blocked"
	outcomeFailed    = "failed"
	outcomeRefused   = "refused"
	outcomeSuspended = "suspended"
)

// operationKinds maps stages to the kind of an operation, the most specific stage first. The most specific stage of an operation decides its kind.
// Other stages are parts of each operation.
var operationKinds = []struct {
	stage plan.Stage
	kind  string
}{
	{plan.StageRestore, "restore"},
	{plan.StageReplaceVolume, "repair"},
	{plan.StageQuorumLost, "outage"},
	{plan.StageFreeSpace, "free-space"},
	{plan.StageCreate, "create"},
	{plan.StageWakeUp, "wake"},
	{plan.StageHibernate, "hibernate"},
	{plan.StageScaleUp, "scale-up"},
	{plan.StageScaleIn, "scale-in"},
	{plan.StageSurge, "surge"},
	{plan.StageMigrateVolumes, "volume-migration"},
	{plan.StagePromote, "scale-up"},
	{plan.StageReplaceLearner, "repair"},
	{plan.StageReplacePod, "rolling-update"},
	{plan.StageResizeVolume, "resize-volume"},
	{plan.StageRecreateStatefulSet, "recreate"},
}

// otherKind is the kind of an operation without a stage of operationKinds.
const otherKind = "apply"

// operations caches the most specific stage of each operation that has not ended, as an index of operationKinds. The zero value is empty.
type operations struct {
	lock   sync.Mutex
	stages map[client.ObjectKey]int
}

// record caches the stage of an operation that has not ended.
func (o *operations) record(etcd client.ObjectKey, decision plan.Plan) {
	stage := decision.Stage
	if decision.Restore != state.RestoreNone {
		stage = plan.StageRestore
	}
	index := slices.IndexFunc(operationKinds, func(kind struct {
		stage plan.Stage
		kind  string
	}) bool {
		return kind.stage == stage
	})
	if index < 0 {
		return
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.stages == nil {
		o.stages = map[client.ObjectKey]int{}
	}
	if before, ok := o.stages[etcd]; !ok || index < before {
		o.stages[etcd] = index
	}
}

// end returns the kind of the operation that has ended, and drops its stage.
func (o *operations) end(etcd client.ObjectKey) string {
	o.lock.Lock()
	defer o.lock.Unlock()
	index, ok := o.stages[etcd]
	delete(o.stages, etcd)
	if !ok {
		return otherKind
	}

	return operationKinds[index].kind
}

// measureOperation counts an operation that has ended: the condition Reconciled reported it, and does so no longer. It began when the
// condition turned False, which outlives this process.
func (r *Reconciler) measureOperation(before, after *druidv1alpha1.Etcd) {
	key := client.ObjectKeyFromObject(after)
	was := conditions.Find(before.Status.Conditions, druidv1alpha1.ConditionTypeReconciled)
	is := conditions.Find(after.Status.Conditions, druidv1alpha1.ConditionTypeReconciled)
	if is == nil || helper.IsReconciling(is.Reason) {
		return
	}
	kind := r.operations.end(key)
	if was == nil || !helper.IsReconciling(was.Reason) {
		return
	}
	outcome := outcomeSuspended
	switch is.Reason {
	case druidv1alpha1.ReasonReconciled:
		outcome = outcomeDone
	case druidv1alpha1.ReasonInvalidSpec:
		outcome = outcomeRefused
	}
	operationsTotal.WithLabelValues(key.Namespace, key.Name, kind, outcome).Inc()
	operationDuration.WithLabelValues(kind, outcome).Observe(max(0, r.Clock.Now().Sub(was.LastTransitionTime.Time).Truncate(time.Second).Seconds()))
}

// measureStep counts a step.
func measureStep(etcd *druidv1alpha1.Etcd, step plan.Step, err error) {
	outcome := outcomeDone
	switch {
	case err != nil && engine.ResultOf(err).Err != nil:
		outcome = outcomeFailed
	case err != nil:
		outcome = outcomeBlocked
	}
	stepsTotal.WithLabelValues(etcd.Namespace, etcd.Name, plan.TraitsOf(step).Kind, outcome).Inc()
}

// dropMeasurements drops the metrics of an Etcd that does not exist any more.
func (r *Reconciler) dropMeasurements(etcd client.ObjectKey) {
	_ = r.operations.end(etcd)
	labels := prometheus.Labels{"etcd_namespace": etcd.Namespace, "etcd": etcd.Name}
	stepsTotal.DeletePartialMatch(labels)
	operationsTotal.DeletePartialMatch(labels)
	backoffsTotal.DeletePartialMatch(labels)
	r.guard.Delete(etcd)
}
