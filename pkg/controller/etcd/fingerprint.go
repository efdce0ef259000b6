// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// fingerprintOf returns a text that two observations of an Etcd have in common if nothing has happened between them. It leaves out what
// changes with every write of the operator, such as UIDs, resource versions, checksums of renderings and times. Otherwise each round of an endless
// loop would count as progress. It leaves out what changes continuously, such as revisions and sizes of the database, and texts that
// members report, such as names.
func fingerprintOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) string {
	hash := fnv.New64a()
	writeRequest(hash, etcd)
	writeOwned(hash, o)
	for _, pod := range o.Pods {
		writePod(hash, pod, o.StatefulSet)
	}
	for _, claim := range o.Claims {
		write(hash, "claim", claim.Name, claim.Exists, claim.Deleting, claim.Bound, claim.Lost, claim.Requested, claim.Capacity, claim.ResizeProblem != "", len(claim.Warnings) > 0)
	}
	for _, volume := range o.Volumes {
		write(hash, "volume", volume.Name, volume.Exists, volume.ReclaimPolicy, volume.RetainedFor != "")
	}
	for _, job := range o.Inspections {
		write(hash, "inspection", job.Name, job.Deleting, job.Failed, job.Result != nil)
	}
	for _, node := range o.Nodes {
		write(hash, "node", node)
	}
	for _, lease := range append([]etcdcluster.Lease{o.FullSnapshotLease, o.DeltaSnapshotLease}, o.MemberLeases...) {
		write(hash, "lease", lease.Name, lease.Exists, lease.Holder != "", lease.Store)
	}
	for _, secret := range o.Secrets {
		write(hash, "secret", secret.Name, secret.Exists, secret.Keys, secret.CertificateChecksums)
	}
	writeGardener(hash, o.Gardener)
	writeMembers(hash, etcd.Spec.Replicas, o.Etcd)
	write(hash, o.RestoreVerification.Exists, o.RestoreVerification.Recorded, o.RestoreVerification.Succeeded, o.RestoreVerification.Failed, o.SnapshotAttempts.Running, o.SnapshotAttempts.Verified != nil, o.Defragmentation)
	writeRecovery(hash, o)
	writeSpace(hash, o)
	for _, failure := range o.Failures {
		write(hash, "failure", failure.Section)
	}

	return strconv.FormatUint(hash.Sum64(), 16)
}

func write(to io.Writer, facts ...any) { _, _ = fmt.Fprintf(to, "%#v\n", facts) }

// writeRequest writes what the user requests.
func writeRequest(to io.Writer, etcd *druidv1alpha1.Etcd) {
	write(to, "etcd", etcd.UID, etcd.Generation, etcd.DeletionTimestamp != nil, helper.IsReconcileRequested(etcd), helper.IsSuspended(etcd), skipsFinalSnapshot(etcd),
		etcd.Annotations[druidv1alpha1.RotateCAAnnotation], etcd.Annotations[druidv1alpha1.RestoreAnnotation], etcd.Annotations[druidv1alpha1.AcceptRevisionAnnotation],
		etcd.Annotations[druidv1alpha1.RecoverAnnotation])
}

// writeOwned writes how far the ManagedResource and the StatefulSet are.
func writeOwned(to io.Writer, o etcdcluster.Observation) {
	mr, set := o.ManagedResource, o.StatefulSet
	accepted, replicas := int64(0), int32(-1)
	if o.State.Accepted != nil {
		accepted = o.State.Accepted.Generation
	}
	if o.State.Replicas != nil {
		replicas = *o.State.Replicas
	}
	stage := state.StageIdle
	if o.State.Rotation != nil {
		stage = o.State.Rotation.Stage
	}
	store := o.State.StoreError
	if o.State.Store != nil {
		store = fmt.Sprintf("%#v", *o.State.Store)
	}
	write(to, "etcdversion", o.State.EtcdVersion)
	write(to, "managedresource", mr.Exists, mr.Deleting, mr.IsApplied(), mr.IsRefused(), o.State.TLS.String(), stage, store, o.State.Restore, o.State.Size, replicas, o.State.FinalSnapshot != nil, accepted, o.State.Evidence != nil && o.State.Evidence.RolledBack != nil, len(o.State.Retained), consistency.IsConfirmed(o.State.Inconsistency))
	write(to, "statefulset", set.Exists, set.Deleting, set.GenerationObserved(), set.SpecReplicas, set.Replicas, set.ReadyReplicas)
}

func writePod(to io.Writer, pod etcdcluster.Pod, set etcdcluster.StatefulSet) {
	write(to, "pod", pod.Name, pod.Phase, pod.Ready, pod.ContainersReady, pod.Deleting, pod.Node, pod.Unschedulable != "", pod.IsOutdated(set))
	for _, container := range pod.Containers {
		write(to, "container", container.Name, container.Ready, container.State, container.Reason)
	}
}

func writeGardener(to io.Writer, gardener etcdcluster.Gardener) {
	for _, rotation := range []*etcdcluster.CARotation{gardener.Cluster, gardener.Garden} {
		if rotation != nil {
			write(to, "rotation", rotation.Phase)
		}
	}
	for _, entry := range gardener.BackupEntries {
		write(to, "backupentry", entry.Name, entry.Deleting, entry.Type, entry.BucketName, entry.GenerationObserved, entry.State)
		if entry.PublishedSecret != nil {
			write(to, "published", *entry.PublishedSecret)
		}
	}
	for _, secret := range gardener.StoreSecrets {
		write(to, "storesecret", secret)
	}
}

// writeRecovery writes how far the recovery from a lost quorum is.
func writeRecovery(to io.Writer, o etcdcluster.Observation) {
	job, recorded := o.RecoveryJob, ptr.Deref(o.State.Recovery, state.Recovery{})
	write(to, "recovery", job.Exists, job.Suspended, job.Deleting, job.Failed, job.Result != nil, o.State.Recovery != nil, recorded.Source, recorded.Stopped, recorded.Claim,
		recorded.Proven, recorded.Job, recorded.Outdated, recorded.Stored != nil, recorded.Withdrawn != "")
}

// writeSpace writes how far the operator is with full databases. The alarms are those of members, which a hostile Etcd chooses.
func writeSpace(to io.Writer, o etcdcluster.Observation) {
	space := ptr.Deref(o.State.Space, state.Space{})
	write(to, "space", o.State.Space.IsActive(), space.Stored > 0, space.Compacted > 0, space.Blocked != "", o.SpaceCall.Running, o.SpaceCall.Kind, o.SpaceCall.Object,
		min(len(o.Etcd.AlarmsOf(etcdcluster.AlarmNoSpace)), maxSize))
}

// writeMembers writes the state of the members, which those of a hostile Etcd choose. It has fewer values than the guard caches: at most
// eight counts of healthy members, times three of voters, times two of others.
func writeMembers(to io.Writer, replicas int32, etcd etcdcluster.EtcdResponses) {
	serving, voters, isPending := 0, 0, false
	for _, member := range etcd.Members {
		if member.Healthy {
			serving++
		}
	}
	for _, member := range etcd.MemberList {
		if member.Learner || member.Name == "" {
			isPending = true
		} else {
			voters++
		}
	}
	write(to, "members", min(serving, maxSize), cmp.Compare(voters, int(replicas)), isPending)
}
