// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

var backoffsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "etcd_druid_reconcile_backoffs_total",
	Help: "Pauses of the reconciliation of an Etcd that wrote or conflicted too often without a new observation.",
}, []string{"etcd_namespace", "etcd"})

const (
	// conflictPeriod is when a reconciliation that ended in a conflict is repeated: the caches are newer then.
	conflictPeriod = 200 * time.Millisecond
	// maxNamedActs is how many acts of a loop are named in the status.
	maxNamedActs = 5
)

// hold returns an error where the guard holds the reconciliation back after this observation.
func (r *Reconciler) hold(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	return r.holdAt(etcd, fingerprintOf(etcd, o))
}

// holdDeletion is hold for a deletion, whose progress is what it waited for last.
func (r *Reconciler) holdDeletion(etcd *druidv1alpha1.Etcd) error {
	fingerprint := fingerprintOf(etcd, etcdcluster.Observation{})
	if last := etcd.Status.LastOperation; last != nil {
		fingerprint += " " + last.Description
	}

	return r.holdAt(etcd, fingerprint)
}

func (r *Reconciler) holdAt(etcd *druidv1alpha1.Etcd, fingerprint string) error {
	if pause := r.guard.Observe(client.ObjectKeyFromObject(etcd), fingerprint, r.Clock.Now()); pause > 0 {
		return &plan.Problem{Kind: plan.ProblemPaused, Message: "Waiting for a new observation, or the end of the pause", RequeueAfter: pause}
	}

	return nil
}

// brake slows down the reconciliations of an Etcd that write or conflict again and again, though nothing new is observed. It counts no
// reconciliation that only polls.
func (r *Reconciler) brake(ctx context.Context, key client.ObjectKey, acts *writeguard.Acts, result reconcile.Result, err error) (reconcile.Result, error) {
	if problem := plan.AsProblem(err); problem != nil && problem.Kind == plan.ProblemPaused {
		return reconcile.Result{RequeueAfter: problem.RequeueAfter}, nil
	}
	isConflict := apierrors.IsConflict(err)
	if !isConflict && len(acts.All()) == 0 {
		return r.rest(key, result, err)
	}
	longest := writeguard.LongestPause
	if acts.AreReports() && !isConflict {
		longest = writeguard.FirstPause // a cluster in a bad state whose description goes back and forth is still to be repaired soon
	}
	pause, begins := r.guard.RecordActs(key, r.Clock.Now(), longest)
	switch {
	case pause == 0 && isConflict:
		return reconcile.Result{RequeueAfter: conflictPeriod}, nil
	case pause == 0:
		return result, err
	}
	backoffsTotal.WithLabelValues(key.Namespace, key.Name).Inc()
	logf.FromContext(ctx).Error(err, "Reconciliations write or conflict without a new observation, backing off", "after", pause, "acts", acts.All())
	if err := r.reportLoop(ctx, key, describeLoop(acts, err), begins); err != nil {
		logf.FromContext(ctx).Error(err, "The endless loop could not be reported")
	}

	return reconcile.Result{RequeueAfter: pause}, nil
}

// rest returns the result of a reconciliation that did not act; one in a loop is repeated when the loop would count as ended.
func (r *Reconciler) rest(key client.ObjectKey, result reconcile.Result, err error) (reconcile.Result, error) {
	left := r.guard.RecordNoActs(key, r.Clock.Now())
	if left > 0 && err == nil && (result.RequeueAfter == 0 || left < result.RequeueAfter) {
		result.RequeueAfter = left
	}

	return result, err
}

// describeLoop says what is repeated, and what to do. It holds nothing that changes from one round to the next.
func describeLoop(acts *writeguard.Acts, err error) string {
	named := acts.All()
	if len(named) > maxNamedActs {
		named = append(named[:maxNamedActs], "...")
	}
	description := fmt.Sprintf("more than %d reconciliations within a minute wrote or conflicted without a new observation, and the operator pauses between them for up to %s",
		writeguard.Limit, writeguard.LongestPause)
	if len(named) > 0 {
		description += "; the last one did: " + strings.Join(named, ", ")
	}
	if err != nil {
		description += "; its error: " + engine.Message(err)
	}

	return description + ". Find out who else writes these objects; a change of the Etcd ends the pause"
}

// reportLoop writes the error code to status.lastErrors of the Etcd as the API server has it, and an event where the loop begins. What
// is there already stays as it is.
func (r *Reconciler) reportLoop(ctx context.Context, key client.ObjectKey, description string, begins bool) error {
	etcd := &druidv1alpha1.Etcd{}
	if err := r.Reader.Get(ctx, key, etcd); err != nil {
		return client.IgnoreNotFound(err)
	}
	uid := etcd.UID
	err := r.Versions.Write(ctx, r.Reader, etcd, func(latest *druidv1alpha1.Etcd) bool { return latest.UID != uid }, func() error {
		if !begins && slices.ContainsFunc(etcd.Status.LastErrors, isLoop) {
			return nil
		}
		next := etcd.DeepCopy()
		next.Status.LastErrors = append(slices.DeleteFunc(next.Status.LastErrors, isLoop), druidv1alpha1.LastError{
			Code: druidv1alpha1.ErrorCodeReconcileLoop, Description: description, ObservedAt: metav1.NewTime(r.Clock.Now().Truncate(time.Second)),
		})
		if err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(etcd.DeepCopy(), client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
		next.DeepCopyInto(etcd)

		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if begins {
		r.event(etcd, corev1.EventTypeWarning, "ReconcileLoop", "Backing off: %s", description)
	}

	return err
}

// withLoop returns the last errors of a status with the error code of a loop that has not ended.
func (r *Reconciler) withLoop(before, next *druidv1alpha1.Etcd) []druidv1alpha1.LastError {
	lastErrors := slices.DeleteFunc(slices.Clone(next.Status.LastErrors), isLoop)
	if !r.guard.IsLooping(client.ObjectKeyFromObject(before), r.Clock.Now()) {
		return lastErrors
	}
	for _, lastError := range before.Status.LastErrors {
		if isLoop(lastError) {
			lastErrors = append(lastErrors, lastError)
		}
	}

	return lastErrors
}

func isLoop(lastError druidv1alpha1.LastError) bool {
	return lastError.Code == druidv1alpha1.ErrorCodeReconcileLoop
}
