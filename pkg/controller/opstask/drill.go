// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	componentcompaction "github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/storejob"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/drill"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// drillTimeout is how long a restore drill may take until its Job exists.
const drillTimeout = 15 * time.Minute

// Drills are the settings of restore drills.
type Drills struct {
	// EtcdHelper is the image of etcd-helper.
	EtcdHelper target.EtcdHelper
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
	// Restrictions are the values that authors may select. Zero: all.
	Restrictions restrictions.Restrictions
}

// readDrill reads the state of the Job of a restore drill. The controller of restore drills records its result, and writes that on the Job.
func (r *Reconciler) readDrill(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs *observation) error {
	if obs.etcd == nil {
		return nil
	}
	job, err := r.drillJob(ctx, r.Client, task, obs.FailedAttempts+1)
	if err != nil {
		return err
	}
	if job == nil {
		if r.readCall(task, obs); !obs.Call.Ended || obs.Call.Problem != nil {
			return nil
		}
		if job, err = r.drillJob(ctx, r.Reader, task, obs.FailedAttempts+1); err != nil {
			return err
		}
	}
	obs.Precondition = nil // it concerned the creation of the Job
	switch {
	case job == nil:
		obs.Call.Problem = drillProblem("The Job of the drill was deleted before its result was recorded")
	case job.Recorded == "":
		obs.Call = opstask.Call{Running: true, Message: opstask.JobMessage(obs.FailedAttempts+1, obs.Limits.Attempts)}
	default:
		return r.readDrillResult(ctx, *job, obs)
	}

	return nil
}

func drillProblem(message string) *opstask.Problem {
	return &opstask.Problem{Code: druidv1alpha1.ErrorCodeRestoreDrill, Message: message}
}

// drillJob reads the Job of an attempt of the task. Nil: there is none.
func (r *Reconciler) drillJob(ctx context.Context, reader client.Reader, task *druidv1alpha1.EtcdOpsTask, attempt int) (*drill.Job, error) {
	job, name := &batchv1.Job{}, drillJobName(task)
	if err := reader.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: name}, job); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}

		return nil, fmt.Errorf("reading Job %s: %w", name, err)
	}
	if found := drill.JobFor(job, nil); found.Task == task.UID && found.Attempt == attempt && !found.Deleting {
		return &found, nil
	}

	return nil, nil
}

func drillJobName(task *druidv1alpha1.EtcdOpsTask) string {
	return helper.RestoreDrillJobName(&druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: ptr.Deref(task.Spec.EtcdName, "")}})
}

// cancelDrill deletes the running Job of a task that is deleted before its end.
func (r *Reconciler) cancelDrill(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) error {
	if helper.TaskKind(task) != druidv1alpha1.RunTaskRestoreDrill || ptr.Deref(task.Status.State, "") != druidv1alpha1.TaskStateInProgress {
		return nil
	}
	running, err := r.drillJob(ctx, r.Reader, task, len(task.Status.LastErrors)+1)
	if err != nil || running == nil || running.Result != nil {
		return err
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: drillJobName(task)}}
	err = r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &running.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Job %s: %w", job.Name, err)
	}

	return nil
}

// readDrillResult sets the result of a Job from the record. A drill that has found a fault is not repeated by its task.
func (r *Reconciler) readDrillResult(ctx context.Context, job drill.Job, obs *observation) error {
	mr := &resourcesv1alpha1.ManagedResource{}
	key := client.ObjectKey{Namespace: obs.etcd.Namespace, Name: helper.ManagedResourceName(obs.etcd)}
	if err := r.Reader.Get(ctx, key, mr); err != nil {
		return fmt.Errorf("reading ManagedResource %s: %w", key.Name, err)
	}
	result := state.DrillResult{Reason: job.Recorded}
	if record := state.ParseRestoreDrill(mr.Annotations); record != nil && record.Last != nil && record.Last.Job == job.UID {
		result = *record.Last
	}
	obs.Call = opstask.Call{Ended: true, Final: result.IsFault()}
	obs.outcome = Outcome{Message: result.Message}
	if !result.IsProof() {
		obs.Call.Problem = drillProblem(result.Reason + ": " + result.Message)
		obs.outcome.Problem = obs.Call.Problem
	}

	return nil
}

// startDrill creates the Job of a restore drill. It takes a delta snapshot, and then reads the hash of the keys at its revision from all members.
func (r *Reconciler) startDrill(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) Outcome {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	values, err := r.drillValues(ctx, etcd)
	if err != nil {
		return problem(druidv1alpha1.ErrorCodeRestoreDrill, err)
	}
	observation := r.Observer.Observe(ctx, etcd, observer.Request{QueryEtcd: true})
	live, err := r.storeLive(ctx, task, etcd, observation)
	if err != nil {
		return problem(druidv1alpha1.ErrorCodeRestoreDrill, err)
	}
	compacted, err := r.hashLive(ctx, etcd, &live)
	if errors.Is(err, errMembersDiffer) {
		return problem(druidv1alpha1.ErrorCodeMembersDiffer, err)
	}
	if err != nil {
		return problem(druidv1alpha1.ErrorCodeRestoreDrill, err)
	}
	job := componentcompaction.RestoreDrillJob(values, componentcompaction.LiveHash{Revision: live.Revision, CompactRevision: compacted, Hash: live.Hash})
	maps.Copy(job.Annotations, live.Annotations())
	job.Annotations[druidv1alpha1.CompactionTaskAnnotation] = string(task.UID)
	job.Annotations[druidv1alpha1.CompactionAttemptAnnotation] = strconv.Itoa(len(task.Status.LastErrors) + 1)
	if follows := task.Annotations[druidv1alpha1.DrillOfAnnotation]; follows != "" {
		job.Annotations[druidv1alpha1.DrillOfAnnotation] = follows
	}
	if err := r.replaceJob(ctx, etcd, job); err != nil {
		return problem(druidv1alpha1.ErrorCodeRestoreDrill, err)
	}

	return Outcome{}
}

// drillValues returns the values of the Job's manifest, or what it waits for.
func (r *Reconciler) drillValues(ctx context.Context, etcd *druidv1alpha1.Etcd) (componentcompaction.Values, error) {
	configured := r.Drills.EtcdHelper
	if configured.Image == "" {
		return componentcompaction.Values{}, errors.New("etcdHelper.image is not set in the configuration of the operator, and the operator could not read the image of its own pod: " +
			"set the field to the image of the operator, which contains etcd-helper")
	}
	values, waitsFor, err := storejob.Values(ctx, r.Observer, r.Drills.LocalStoreRoots, r.Drills.Restrictions, etcd)
	if err != nil {
		return values, err
	}
	if waitsFor != "" {
		return values, errors.New("waiting for " + waitsFor)
	}
	if errs := componentcompaction.DrillErrors(values.Store, field.NewPath("spec", "backup", "store")); len(errs) > 0 {
		return values, errs.ToAggregate()
	}
	values.Deadline, values.HelperImage, values.HelperPullSecrets = r.JobDeadline, configured.Image, configured.PullSecrets

	return values, nil
}

// storeLive takes a delta snapshot, and returns what the store contains then, and what it lacked before the first attempt.
func (r *Reconciler) storeLive(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (drill.Live, error) {
	member := opstask.SnapshotMember(etcd, o)
	if member == nil {
		return drill.Live{}, errors.New("no member in a pod of the operator is healthy, so that no sidecar can take a snapshot")
	}
	sidecarClient, err := r.Observer.Sidecar(ctx, etcd, *member.Pod)
	if err != nil {
		return drill.Live{}, err
	}
	latest, err := sidecarClient.LatestSnapshots(ctx)
	if err != nil {
		return drill.Live{}, fmt.Errorf("listing the snapshots: %w", err)
	}
	newest := latest.Since(0)
	if newest == nil {
		return drill.Live{}, errors.New("the store contains no full snapshot")
	}
	revision, createdAt, err := r.recordBefore(ctx, task, *newest)
	if err != nil {
		return drill.Live{}, err
	}
	taken, err := sidecarClient.DeltaSnapshot(ctx)
	if err != nil {
		return drill.Live{}, fmt.Errorf("taking a delta snapshot: %w", err)
	}
	if taken != nil {
		newest = taken
	}
	live := drill.Live{Revision: newest.LastRevision, Snapshot: newest.Name}
	if found, isRecorded := drill.LackOf(task.Annotations); isRecorded {
		live.DataAge, live.MissingRevisions = found.DataAge, found.MissingRevisions

		return live, nil
	}
	if newest.LastRevision > revision {
		live.MissingRevisions, live.DataAge = newest.LastRevision-revision, r.Clock.Since(createdAt).Truncate(time.Second)
	}

	return live, r.recordLack(ctx, task, live)
}

// recordLack annotates the task with what the store lacked before the first attempt. At a later attempt, the cluster has newer data.
func (r *Reconciler) recordLack(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, live drill.Live) error {
	patch := client.MergeFrom(task.DeepCopy())
	for key, value := range live.LackAnnotations() {
		metav1.SetMetaDataAnnotation(&task.ObjectMeta, key, value)
	}
	if err := r.Client.Patch(ctx, task, patch); err != nil {
		return fmt.Errorf("recording on the task what the store lacked: %w", err)
	}

	return nil
}

// recordBefore annotates the task with the newest snapshot before the first attempt, and returns its revision and time. A later attempt finds the
// snapshot of the first one in the store.
func (r *Reconciler) recordBefore(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, newest sidecar.Snapshot) (revision int64, createdAt time.Time, err error) {
	var text string
	if _, err := fmt.Sscanf(task.Annotations[druidv1alpha1.DrillBeforeAnnotation], "%d %s", &revision, &text); err == nil {
		if createdAt, err = time.Parse(time.RFC3339, text); err == nil {
			return revision, createdAt, nil
		}
	}
	updated := task.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, druidv1alpha1.DrillBeforeAnnotation, fmt.Sprintf("%d %s", newest.LastRevision, newest.CreatedAt.UTC().Format(time.RFC3339)))
	if err := r.Client.Patch(ctx, updated, client.MergeFrom(task)); err != nil {
		return 0, time.Time{}, fmt.Errorf("recording the newest snapshot on the task: %w", err)
	}

	return newest.LastRevision, newest.CreatedAt, nil
}

// errMembersDiffer means that members have different data at the same revision. Which of them is correct is unknown, and so is whether the store is.
var errMembersDiffer = errors.New("the members have different data")

// hashLive reads the hash of the keys at the revision of the store from all members that vote. It returns the revision up to which they were compacted.
// Its lock prevents that another controller replaces a member meanwhile.
func (r *Reconciler) hashLive(ctx context.Context, etcd *druidv1alpha1.Etcd, live *drill.Live) (compacted int64, err error) {
	since := r.Clock.Now()
	for !r.Locks.TryLock(etcd.UID, ControllerName) {
		if r.Clock.Since(since) > memberTimeout {
			return 0, fmt.Errorf("waiting for the replacement of a member to end took longer than %s", memberTimeout)
		}
		if err := pause(ctx, memberPeriod); err != nil {
			return 0, err
		}
	}
	defer r.Locks.Unlock(etcd.UID, 0)
	observed := r.Observer.Observe(ctx, etcd, observer.Request{QueryEtcd: true})
	voters, _, err := consistency.VotersOf(etcd, observed)
	if err != nil {
		return 0, err
	}
	result, err := consistency.Compare(ctx, voters, live.Revision, func(m consistency.Member) (consistency.Hasher, error) {
		return r.upToDateMember(ctx, etcd, observed.PodFor(m.Ordinal), m.Name)
	})
	switch {
	case err != nil:
		return 0, err
	case !result.IsEqual():
		return 0, fmt.Errorf("%w %s", errMembersDiffer, result)
	}
	live.Hash = result.Hashes[0].Hash

	return result.Compacted, nil
}

// upToDateMember returns the client of a member that has all acknowledged writes. A follower can lack the last revision for a moment.
func (r *Reconciler) upToDateMember(ctx context.Context, etcd *druidv1alpha1.Etcd, pod *etcdcluster.Pod, name string) (etcdclient.Client, error) {
	if pod == nil || pod.Deleting {
		return nil, fmt.Errorf("%w: the pod of member %s stops", consistency.ErrNotComparable, name)
	}
	member, err := r.Observer.Member(ctx, etcd, *pod)
	if err != nil {
		return nil, err
	}
	if _, err := member.Revision(ctx); err != nil { // a quorum read
		return nil, fmt.Errorf("reading the revision of member %s: %w", name, err)
	}

	return member, nil
}

// replaceJob creates the Job. It first deletes the Job of an earlier drill or attempt.
func (r *Reconciler) replaceJob(ctx context.Context, etcd *druidv1alpha1.Etcd, job *batchv1.Job) error {
	existing := &batchv1.Job{}
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(job), existing)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Job %s: %w", job.Name, err)
	}
	if err == nil {
		if !metav1.IsControlledBy(existing, etcd) {
			return fmt.Errorf("metadata.name: Job %s in namespace %s exists and does not belong to this Etcd: delete it if nothing needs it, or create the Etcd with another name", job.Name, job.Namespace)
		}
		if err := r.Client.Delete(ctx, existing, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &existing.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Job %s: %w", job.Name, err)
		}
	}
	if err := r.Client.Create(ctx, job); err != nil {
		return fmt.Errorf("creating Job %s: %w", job.Name, err)
	}

	return nil
}
