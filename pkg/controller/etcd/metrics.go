// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
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
		Help:    "Duration of operations on Etcds from their first reconciliation to their end, by their kind and outcome.",
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

// operations caches the operations that have not ended. The zero value is empty.
type operations struct {
	lock   sync.Mutex
	cached map[client.ObjectKey]operation
}

// operation is an operation on an Etcd.
type operation struct {
	// kind is that of its most specific stage, as an index of operationKinds. The number of kinds: there was no such stage.
	kind int
	// began is its start. Zero: it began before this process.
	began time.Time
}

// change changes the operation of an Etcd, or a new one.
func (o *operations) change(etcd client.ObjectKey, change func(*operation)) {
	o.lock.Lock()
	defer o.lock.Unlock()
	current, found := o.cached[etcd]
	if !found {
		current.kind = len(operationKinds)
	}
	change(&current)
	if o.cached == nil {
		o.cached = map[client.ObjectKey]operation{}
	}
	o.cached[etcd] = current
}

// record caches the stage of an operation that has not ended.
func (o *operations) record(etcd client.ObjectKey, decision plan.Plan) {
	stage := decision.Stage
	if decision.Restore != state.RestoreNone {
		stage = plan.StageRestore
	}
	for kind := range operationKinds {
		if operationKinds[kind].stage == stage {
			o.change(etcd, func(current *operation) { current.kind = min(current.kind, kind) })

			return
		}
	}
}

// end drops the operation of an Etcd, and returns its kind and its start. Zero: it began before this process.
func (o *operations) end(etcd client.ObjectKey) (kind string, began time.Time) {
	o.lock.Lock()
	defer o.lock.Unlock()
	current, found := o.cached[etcd]
	delete(o.cached, etcd)
	if !found || current.kind == len(operationKinds) {
		return otherKind, current.began
	}

	return operationKinds[current.kind].kind, current.began
}

// measureOperation counts an operation that has ended: the condition Reconciled reported it, and does so no longer. It does not measure how long the
// Etcd waited for its user before. If the operation began in another process, its duration is that since the condition turned False.
func (r *Reconciler) measureOperation(before, after *druidv1alpha1.Etcd) {
	key := client.ObjectKeyFromObject(after)
	was := conditions.Find(before.Status.Conditions, druidv1alpha1.ConditionTypeReconciled)
	is := conditions.Find(after.Status.Conditions, druidv1alpha1.ConditionTypeReconciled)
	if is == nil {
		return
	}
	wasReconciling := was != nil && helper.IsReconciling(was.Reason)
	if helper.IsReconciling(is.Reason) {
		if !wasReconciling {
			r.operations.change(key, func(current *operation) { current.began = r.Clock.Now() })
		}

		return
	}
	kind, began := r.operations.end(key)
	if !wasReconciling {
		return
	}
	if began.IsZero() {
		began = was.LastTransitionTime.Time
	}
	outcome := outcomeSuspended
	switch is.Reason {
	case druidv1alpha1.ReasonReconciled:
		outcome = outcomeDone
	case druidv1alpha1.ReasonInvalidSpec:
		outcome = outcomeRefused
	}
	operationsTotal.WithLabelValues(key.Namespace, key.Name, kind, outcome).Inc()
	operationDuration.WithLabelValues(kind, outcome).Observe(max(0, r.Clock.Now().Sub(began).Truncate(time.Second).Seconds()))
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
	_, _ = r.operations.end(etcd)
	labels := prometheus.Labels{"etcd_namespace": etcd.Namespace, "etcd": etcd.Name}
	stepsTotal.DeletePartialMatch(labels)
	operationsTotal.DeletePartialMatch(labels)
	backoffsTotal.DeletePartialMatch(labels)
	r.guard.Delete(etcd)
}
