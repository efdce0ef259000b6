// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"cmp"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// backupInspectionTTL is the time for which the reason of a failure is kept, in seconds.
const backupInspectionTTL = 300

// BackupPoint is a point of the history that the snapshots contain. The zero value is the newest one.
type BackupPoint struct {
	// Revision of etcd. 0: see Time.
	Revision int64
	// Time at which the sidecar had received the last revision. Zero: the newest point.
	Time time.Time
}

// BackupInspection is what the Job of an inspection makes readable.
type BackupInspection struct {
	// Point is the point whose data becomes readable. CompareWith is the second point for a comparison. Nil: none.
	Point       BackupPoint
	CompareWith *BackupPoint
	// Sets is the number of full snapshots that are copied, with their delta snapshots, from the newest one on. 0: all.
	Sets int
	// TimeLimit is how long the data is readable.
	TimeLimit time.Duration
}

// NewestSets is the number of full snapshots that an inspection needs if its points are not older than the newest one. The second one is needed if a
// compaction of the store has created the newest one.
const NewestSets = drillSets

// BackupInspectionJob renders the Job of an inspection of the backup store. Its containers run one after another:
//
//   - fetch copies the snapshots into a directory of the pod.
//   - replay creates the database of the point from the snapshots, without an etcd. replay-compared does the same for the second point.
//   - inspect waits for the time limit. Users with the permission read the databases in this container with commands of etcd-helper.
//
// The pod has neither a token nor a port, and only its first container has the credentials of the store. The Job changes neither the store nor the
// cluster.
func BackupInspectionJob(v Values, inspection BackupInspection) *batchv1.Job {
	root := ptr.Deref(v.Etcd.Spec.RunAsRoot, false)
	seconds := int64((v.Deadline + inspection.TimeLimit).Seconds())
	transfer := backupstore.Copy{Source: v.Store, Target: drillStore(v.Store), Home: podspec.Home(root)}
	spec := podSpec(v, seconds)
	spec.EnableServiceLinks = new(false)
	spec.TerminationGracePeriodSeconds = new(int64(1)) // it writes nothing
	spec.Volumes = drillVolumes(v, transfer)
	spec.InitContainers = []corev1.Container{inspectionFetchContainer(v, transfer, root, inspection.Sets), pointContainer(v, etcdcluster.ReplayContainer, etcdcluster.InspectedDatabase, inspection.Point)}
	if inspection.CompareWith != nil {
		spec.InitContainers = append(spec.InitContainers, pointContainer(v, etcdcluster.ReplayComparedContainer, etcdcluster.ComparedDatabase, *inspection.CompareWith))
	}
	spec.Containers = []corev1.Container{waitContainer(v, inspection.TimeLimit)}
	spec.ImagePullSecrets = v.HelperPullSecrets

	return backupInspection.job(v.Etcd, storeAnnotations(v), withoutAPIServer(backupInspection.podLabels(v.Etcd)), batchv1.JobSpec{
		BackoffLimit: new(int32(verificationRetries)), TTLSecondsAfterFinished: new(int32(backupInspectionTTL)), PodFailurePolicy: inspectionFetchPolicy(inspection),
	}, spec)
}

// inspectionFetchPolicy makes the Job fail at once if another pod would find the same. A missing delta snapshot is no reason: snapshots can be
// deleted while they are copied.
func inspectionFetchPolicy(inspection BackupInspection) *batchv1.PodFailurePolicy {
	policy := ignoreDisruptions()
	containers := []string{etcdcluster.ReplayContainer}
	if inspection.CompareWith != nil {
		containers = append(containers, etcdcluster.ReplayComparedContainer)
	}
	for _, container := range containers {
		policy.Rules = append(policy.Rules, failJob(container, etcdcluster.ExitCorrupt, etcdcluster.ExitDamaged, etcdcluster.ExitOverlap, etcdcluster.ExitHistory,
			etcdcluster.ExitUnavailable, etcdcluster.ExitNoSnapshot))
	}

	return policy
}

// inspectionFetchContainer copies the snapshots. It needs less than a restore: without resources in the spec, it has those of etcd-helper.
func inspectionFetchContainer(v Values, transfer backupstore.Copy, root bool, sets int) corev1.Container {
	fetching := fetchContainer(v, transfer, root, cmp.Or(sets, -1))
	if spec := v.Etcd.Spec.Backup.SnapshotCompaction; spec == nil || spec.Resources == nil {
		fetching.Resources = helperResources()
	}

	return fetching
}

// pointContainer creates the database of a point.
func pointContainer(v Values, name, database string, point BackupPoint) corev1.Container {
	flags := []string{"--snapshots=" + pathSnapshots, "--output=" + database}
	switch {
	case point.Revision > 0:
		flags = append(flags, fmt.Sprintf("--revision=%d", point.Revision))
	case !point.Time.IsZero():
		flags = append(flags, "--time="+point.Time.UTC().Format(time.RFC3339))
	}

	return helperContainer(v, name, helperCommand("replay", flags...),
		corev1.VolumeMount{Name: volumeWorkspace, MountPath: pathWorkspace},
		corev1.VolumeMount{Name: volumeSnapshots, MountPath: pathSnapshots, ReadOnly: true},
	)
}

// waitContainer is the container in which the databases are read.
func waitContainer(v Values, limit time.Duration) corev1.Container {
	return helperContainer(v, etcdcluster.InspectionContainer, []string{etcdcluster.HelperPath, "wait", fmt.Sprintf("--for=%s", limit)},
		corev1.VolumeMount{Name: volumeWorkspace, MountPath: pathWorkspace, ReadOnly: true})
}
