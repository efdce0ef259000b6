// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"strconv"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ManagedResourceName is the name of the ManagedResource that holds everything rendered for the Etcd.
func ManagedResourceName(etcd *druidv1alpha1.Etcd) string { return managedResourcePrefix + etcd.Name }

// EtcdNameOfManagedResource returns the name of the Etcd whose ManagedResource has the name. False: no Etcd has a ManagedResource with it.
func EtcdNameOfManagedResource(name string) (string, bool) {
	return strings.CutPrefix(name, managedResourcePrefix)
}

const managedResourcePrefix = "druid-"

// StatefulSetName is the name of the StatefulSet of the members.
func StatefulSetName(etcd *druidv1alpha1.Etcd) string { return etcd.Name }

// ClientServiceName is the name of the Service for clients.
func ClientServiceName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-client" }

// PeerServiceName is the name of the headless Service between members.
func PeerServiceName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-peer" }

// LocalHostName is the host name by which containers of a pod reach each other.
func LocalHostName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-local" }

// ConfigMapName is the name of the ConfigMap with etcd's configuration.
func ConfigMapName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-config" }

// ServiceAccountName is the name of the ServiceAccount of the pods.
func ServiceAccountName(etcd *druidv1alpha1.Etcd) string { return etcd.Name }

// RoleName is the name of the Role of the pods, and of its RoleBinding.
func RoleName(etcd *druidv1alpha1.Etcd) string { return "druid.gardener.cloud:etcd:" + etcd.Name }

// PodDisruptionBudgetName is the name of the PodDisruptionBudget of the voters.
func PodDisruptionBudgetName(etcd *druidv1alpha1.Etcd) string { return etcd.Name }

// MemberNetworkPolicyName is the name of the NetworkPolicy of the members.
func MemberNetworkPolicyName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-members" }

// JobNetworkPolicyName is the name of the NetworkPolicy of the Jobs of an Etcd.
func JobNetworkPolicyName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-jobs" }

// FullSnapshotLeaseName is the name of the Lease in which the sidecar records full snapshots.
func FullSnapshotLeaseName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-full-snap" }

// DeltaSnapshotLeaseName is the name of the Lease in which the sidecar records delta snapshots.
func DeltaSnapshotLeaseName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-delta-snap" }

// CompactionJobName is the name of the Job that compacts snapshots.
func CompactionJobName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-compactor" }

// RestoreVerificationJobName is the name of the Job that verifies a restore.
func RestoreVerificationJobName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-verify" }

// RestoreDrillJobName is the name of the Job that compares the backup store with the live cluster, and restores it.
func RestoreDrillJobName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-drill" }

// RecoveryJobName is the name of the Job that stores the data from which a cluster is recovered.
func RecoveryJobName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-recover" }

// backupInspectionSuffix is the end of the name of the Job that makes data of the backup store readable. Kubernetes shortens the names of pods to the
// first 58 characters of the name of their Job and a dash. The longest name of an Etcd has 52 characters. An admission policy finds the pods by their names.
const backupInspectionSuffix = "-insp"

// BackupInspectionJobName is the name of the Job that makes data of the backup store readable.
func BackupInspectionJobName(etcd *druidv1alpha1.Etcd) string {
	return etcd.Name + backupInspectionSuffix
}

// InspectionJobName is the name of the Job that inspects the volume of the member with the ordinal.
func InspectionJobName(etcd *druidv1alpha1.Etcd, ordinal int) string {
	return PodName(etcd, ordinal) + "-inspect"
}

// CopyBackupsJobName is the name of the Job that copies snapshots.
func CopyBackupsJobName(task *druidv1alpha1.EtcdCopyBackupsTask) string { return task.Name + "-worker" }

// PodName is the name of the pod with the ordinal.
func PodName(etcd *druidv1alpha1.Etcd, ordinal int) string {
	return etcd.Name + "-" + strconv.Itoa(ordinal)
}

// MemberName is the name of the member with the ordinal, and of its lease. It is the pod's name. For externally managed
// members it is `<etcd>-<address>` if there is an address with that ordinal. Both begin with spec.memberNamePrefix if it is
// set.
func MemberName(etcd *druidv1alpha1.Etcd, ordinal int) string {
	name := PodName(etcd, ordinal)
	if addresses := etcd.Spec.ExternallyManagedMemberAddresses; ordinal < len(addresses) {
		name = etcd.Name + "-" + addresses[ordinal]
	}
	if prefix := etcd.Spec.MemberNamePrefix; prefix != nil && *prefix != "" {
		name = *prefix + "-" + name
	}

	return name
}

// MemberNames are the names of the first replicas members. Empty where replicas is 0 or less.
func MemberNames(etcd *druidv1alpha1.Etcd, replicas int32) []string {
	names := make([]string, 0, max(replicas, 0))
	for ordinal := range int(replicas) {
		names = append(names, MemberName(etcd, ordinal))
	}

	return names
}

// MemberLeaseNames are the names of the leases of the first replicas members: a lease is named as its member.
func MemberLeaseNames(etcd *druidv1alpha1.Etcd, replicas int32) []string {
	return MemberNames(etcd, replicas)
}

// VolumeClaimTemplateName is the name of the volume claim template: spec.volumeClaimTemplate, else the Etcd's name.
func VolumeClaimTemplateName(etcd *druidv1alpha1.Etcd) string {
	if template := etcd.Spec.VolumeClaimTemplate; template != nil && *template != "" {
		return *template
	}

	return etcd.Name
}

// ClaimName is the name of the volume claim of the pod with the ordinal.
func ClaimName(etcd *druidv1alpha1.Etcd, ordinal int) string {
	return VolumeClaimTemplateName(etcd) + "-" + PodName(etcd, ordinal)
}
