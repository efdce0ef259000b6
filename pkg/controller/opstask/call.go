// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/panics"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// storeTimeout is the longest time to list the snapshots in the store after a compaction. The result is informational.
const storeTimeout = 30 * time.Second

// Outcome is the result of a call.
type Outcome struct {
	// Problem is the reason of a failure. Nil: the call succeeded.
	Problem *opstask.Problem
	// Snapshot is the snapshot that was taken. Nil: none.
	Snapshot *druidv1alpha1.TaskSnapshot
	// Members are the defragmented members.
	Members []druidv1alpha1.DefragmentedMember
	// Message is what a restore drill has proven, or how an inspection has ended, as a sentence.
	Message string
}

func problem(code druidv1alpha1.ErrorCode, err error) Outcome {
	return Outcome{Problem: &opstask.Problem{Code: code, Message: err.Error()}}
}

// call executes one attempt. It runs outside the workers. It ends with the task, with the process, or at its timeout.
func (r *Reconciler) call(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd, timeout time.Duration) Outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcome, err := r.callOfKind(ctx, task, etcd)
	if err != nil {
		return problem(druidv1alpha1.ErrorCodeExecuteHTTPRequest, err)
	}

	return outcome
}

// callOfKind executes the call of the kind of a task. The error is that of a panic.
func (r *Reconciler) callOfKind(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) (outcome Outcome, err error) {
	defer panics.Recover(ctx, &err)
	switch helper.TaskKind(task) {
	case druidv1alpha1.RunTaskDefragmentation:
		return r.defragment(ctx, etcd, task.Annotations[druidv1alpha1.TaskNotAfterAnnotation] != ""), nil
	case druidv1alpha1.RunTaskCompaction:
		return r.compactionOutcome(ctx, task, etcd), nil
	case druidv1alpha1.RunTaskRestoreDrill:
		return r.startDrill(ctx, task, etcd), nil
	case druidv1alpha1.TaskBackupInspection:
		return r.startInspection(ctx, task, etcd), nil
	default:
		return r.takeSnapshot(ctx, task, etcd), nil
	}
}

// takeSnapshot takes a snapshot with the sidecar of the leader. A previous attempt may have taken the snapshot before the
// operator restarted or the response was lost. The task then uses that snapshot.
func (r *Reconciler) takeSnapshot(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) Outcome {
	observation := r.Observer.Observe(ctx, etcd, observer.Request{QueryEtcd: true})
	member := opstask.SnapshotMember(etcd, observation)
	if member == nil {
		return problem(druidv1alpha1.ErrorCodeEtcdNotReady, errors.New("no member in a pod of the operator is healthy, so that no sidecar can take a snapshot"))
	}
	sidecarClient, err := r.Observer.Sidecar(ctx, etcd, *member.Pod)
	if err != nil {
		return problem(druidv1alpha1.ErrorCodeCreateHTTPRequest, err)
	}

	var size *int64
	if member.Endpoint != nil && member.Endpoint.Reachable {
		size = new(member.Endpoint.DBSizeInUse)
	}
	if begun, err := strconv.ParseInt(task.Annotations[druidv1alpha1.TaskRevisionAnnotation], 10, 64); err == nil {
		latest, err := sidecarClient.LatestSnapshots(ctx)
		if err != nil {
			return problem(codeOf(err), err)
		}
		taken := latest.FullSince(begun, isFinal(task))
		if helper.TaskKind(task) == druidv1alpha1.RunTaskDeltaSnapshot {
			taken, size = latest.Since(begun), nil
		}
		if taken != nil {
			return Outcome{Snapshot: snapshotFor(*taken, size)}
		}
	} else if err := r.recordRevision(ctx, task, observation); err != nil {
		return problem(druidv1alpha1.ErrorCodeExecuteHTTPRequest, err)
	}

	return r.requestSnapshot(ctx, task, sidecarClient, size)
}

// requestSnapshot calls the sidecar.
func (r *Reconciler) requestSnapshot(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, sidecarClient sidecar.Client, size *int64) Outcome {
	if helper.TaskKind(task) == druidv1alpha1.RunTaskDeltaSnapshot {
		taken, err := sidecarClient.DeltaSnapshot(ctx)
		switch {
		case err != nil:
			return problem(codeOf(err), err)
		case taken == nil:
			return Outcome{}
		default:
			return Outcome{Snapshot: snapshotFor(*taken, nil)}
		}
	}
	take := sidecarClient.FullSnapshot
	if isFinal(task) {
		take = sidecarClient.FinalSnapshot
	}
	taken, err := take(ctx)
	if err != nil {
		return problem(codeOf(err), err)
	}

	return Outcome{Snapshot: snapshotFor(taken, size)}
}

// recordRevision annotates the task with the current revision of etcd before the first call. A later attempt uses the
// annotation to recognize a snapshot of this task.
func (r *Reconciler) recordRevision(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, o etcdcluster.Observation) error {
	var revision int64
	for _, status := range o.Etcd.Members {
		revision = max(revision, status.Revision)
	}
	if revision == 0 {
		return nil
	}
	updated := task.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, druidv1alpha1.TaskRevisionAnnotation, strconv.FormatInt(revision, 10))
	if err := r.Client.Patch(ctx, updated, client.MergeFrom(task)); err != nil {
		return fmt.Errorf("noting the revision on the task: %w", err)
	}

	return nil
}

func isFinal(task *druidv1alpha1.EtcdOpsTask) bool {
	config := task.Spec.Config.OnDemandSnapshot

	return config != nil && ptr.Deref(config.IsFinal, false)
}

// codeOf distinguishes a sidecar that rejects the request from one that does not respond.
func codeOf(err error) druidv1alpha1.ErrorCode {
	switch {
	case errors.Is(err, sidecar.ErrRefused):
		return druidv1alpha1.ErrorCodeCreateSnapshot
	default:
		return druidv1alpha1.ErrorCodeExecuteHTTPRequest
	}
}

func snapshotFor(taken sidecar.Snapshot, size *int64) *druidv1alpha1.TaskSnapshot {
	snapshot := &druidv1alpha1.TaskSnapshot{Name: taken.Name, Revision: taken.LastRevision, SizeBytes: size}
	if !taken.CreatedAt.IsZero() {
		snapshot.CreatedAt = &metav1.Time{Time: taken.CreatedAt}
	}

	return snapshot
}

// setResult writes the result into the status, and returns it as a sentence. A CustomResourceDefinition of etcd-druid prunes
// the fields.
func setResult(task *druidv1alpha1.EtcdOpsTask, outcome Outcome, status *druidv1alpha1.EtcdOpsTaskStatus) string {
	status.Snapshot, status.Members = outcome.Snapshot, outcome.Members
	switch kind := helper.TaskKind(task); {
	case kind == druidv1alpha1.RunTaskDefragmentation:
		return describeMembers(status.Members)
	case status.Snapshot != nil && status.Snapshot.SizeBytes != nil:
		return fmt.Sprintf("Snapshot %s holds everything up to revision %d, from a database of %d bytes", status.Snapshot.Name, status.Snapshot.Revision, *status.Snapshot.SizeBytes)
	case status.Snapshot != nil:
		return fmt.Sprintf("Snapshot %s holds everything up to revision %d", status.Snapshot.Name, status.Snapshot.Revision)
	case kind == druidv1alpha1.RunTaskCompaction:
		return "The snapshots are compacted"
	case kind == druidv1alpha1.RunTaskRestoreDrill, kind == druidv1alpha1.TaskBackupInspection:
		return outcome.Message
	default:
		return "Nothing has changed since the last snapshot, so that none was taken"
	}
}

// compactionOutcome reads the new snapshot from the store. Without a member whose sidecar can be called, for example during
// hibernation, the name of the snapshot is unknown. The Job has succeeded nevertheless. The compaction failed if the latest
// full snapshot did not change and delta snapshots follow it.
func (r *Reconciler) compactionOutcome(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) Outcome {
	member := opstask.SnapshotMember(etcd, r.Observer.Observe(ctx, etcd, observer.Request{QueryEtcd: true}))
	if member == nil {
		return Outcome{}
	}
	sidecarClient, err := r.Observer.Sidecar(ctx, etcd, *member.Pod)
	if err != nil {
		return Outcome{}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	latest, err := sidecarClient.LatestSnapshots(ctx)
	base := r.baseRevision(ctx, task, etcd)
	switch {
	case err != nil:
		return Outcome{}
	case latest.Full == nil:
		return problem(druidv1alpha1.ErrorCodeCompactSnapshots, errors.New("the store holds no full snapshot, so that nothing was compacted"))
	case latest.DeltaCount > 0 && latest.Full.LastRevision <= base:
		return problem(druidv1alpha1.ErrorCodeCompactSnapshots, fmt.Errorf("nothing was compacted: the newest full snapshot is still %s, and there are %d delta snapshots since", latest.Full.Name, latest.DeltaCount))
	}

	return Outcome{Snapshot: snapshotFor(*latest.Full, nil)}
}

// baseRevision returns the revision of the latest full snapshot before the Job of the task. 0: unknown.
func (r *Reconciler) baseRevision(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) int64 {
	job := &batchv1.Job{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: helper.CompactionJobName(etcd)}, job); err != nil {
		return 0
	}
	base, err := strconv.ParseInt(job.Annotations[druidv1alpha1.CompactionBaseAnnotation], 10, 64)
	if err != nil {
		return 0
	}

	return base
}
