// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Observation holds everything that one reconciliation read about one Etcd. The zero value is a cluster without objects. It holds facts
// only. A failed read is a fact too, see Failures and EtcdResponses.
type Observation struct {
	// ManagedResource is the ManagedResource that holds the rendering.
	ManagedResource ManagedResource
	// State is the durable record on the ManagedResource. Zero: there is no ManagedResource.
	State state.State
	// StoreLocation is the location of State.Store as the Leases of snapshots record it. Empty: not recorded, or not readable.
	StoreLocation string
	// CanInspect is true if the operator can create Jobs that inspect volumes: it knows the image of etcd-helper.
	CanInspect bool
	// TargetStore is the location of the store that the reconciled generation resolves to now, in the form of StoreLocation. It may differ from
	// the recorded one. Empty: there is no store, it cannot be used now, or no restore is considered.
	TargetStore string
	// StatefulSet runs the members.
	StatefulSet StatefulSet
	// Pods are the members' pods, sorted by ordinal. Pods of Jobs are not among them.
	Pods []Pod
	// Claims are the volume claims of the members, by exact name, sorted by ordinal.
	Claims []Claim
	// ForeignClaims are claims with the names of the members' claims that were created for neither the Etcd nor a previous one of its name.
	// No member uses them. Sorted by ordinal. No decision depends on them.
	ForeignClaims []Claim
	// Nodes are the nodes to which volumes of unhealthy members are bound, sorted by name. Other nodes are not read.
	Nodes []Node
	// Volumes are the volumes of the claims of unhealthy members, and those that State.Retained records, sorted by name. Others are not read.
	Volumes []PersistentVolume
	// MemberLeases are the leases of the members that exist, sorted by name.
	MemberLeases []Lease
	// FullSnapshotLease is the lease in which the sidecar records full snapshots. Zero: it does not exist.
	FullSnapshotLease Lease
	// DeltaSnapshotLease is the lease in which the sidecar records delta snapshots. Zero: it does not exist.
	DeltaSnapshotLease Lease
	// RestoreVerification is the Job that verifies a restore. Zero: there is none, or it was not observed.
	RestoreVerification RestoreVerification
	// Inspections are the Jobs that inspect the volumes of members, sorted by name. Nil: there are none, or they were not observed.
	Inspections []ClaimInspection
	// Secrets are the Secrets that the pods need, sorted by name. Secrets that do not exist are included.
	Secrets []Secret
	// Gardener are the objects of Gardener about the namespace. Zero: not observed.
	Gardener Gardener
	// LocalStore is the directory on the node that the Secret of a Local store names. Zero: the store is not a Local store, or it was not
	// observed.
	LocalStore LocalStore
	// StoreCredentials is the Secret of the store, without secret values. Zero: the store has no Secret, or it was not observed.
	StoreCredentials StoreCredentials
	// StoreUsers are the Etcds and the EtcdCopyBackupsTasks of all namespaces with the same provider and container. One of the two prefixes
	// begins with the other. Their endpoints and accounts may differ. Nil: there are none, or they were not observed.
	StoreUsers []StoreUser
	// Issued are the Secrets that the secrets manager keeps for the Etcd, sorted by name. Nil: not observed.
	Issued []IssuedSecret
	// Etcd are the responses of the members.
	Etcd EtcdResponses
	// SnapshotAttempts are the attempts to take a full snapshot before members stop or data is deleted.
	SnapshotAttempts SnapshotAttempts
	// SpaceCall is the last call that frees space in the databases.
	SpaceCall SpaceCall
	// Defragmentation is the name of the EtcdOpsTask that defragments the members now. Empty: none does.
	Defragmentation string
	// FullSnapshotRequested is when the newest EtcdOpsTask that takes a full snapshot was created. Zero: there is none.
	FullSnapshotRequested time.Time
	// PeerChangePending is true if the spec requests peer URLs that PinnedTLS or PinnedPort exclude from the rendering for now.
	PeerChangePending bool
	// StoreTimeout is how long the replacement of a member on a lost node waits for the backup store, from the configuration of the operator.
	// 0: without limit.
	StoreTimeout time.Duration
	// RecoveryJob is the Job that stores the data from which the cluster is recovered. Zero: there is none, or it was not observed.
	RecoveryJob RecoveryJob
	// ClustersWithoutQuorum are the other Etcds that have lost their quorum at about the same time, as namespace/name. Nil: none has, or it was not observed.
	ClustersWithoutQuorum []string
	// RecoveryDwellTime is how long a quorum must be lost forever before the operator chooses an option, from its configuration.
	RecoveryDwellTime time.Duration
	// OperatorStart is when the operator began to reconcile. Zero: it is not known.
	OperatorStart time.Time
	// RecoveryMaxClusters is the largest number of clusters without a quorum with which the operator chooses an option, from its configuration.
	RecoveryMaxClusters int
	// RolloutGrant is the update to newer defaults of the operator that may begin now. Nil: none may.
	RolloutGrant *state.Rollout
	// Preflights are the checks before a pod of the latest template replaces the pod of a healthy member. Nil: nothing was checked, because no such
	// pod is outdated, or it was not requested.
	Preflights []Preflight
	// Failures are the parts that could not be read. Such a part is zero, which has no meaning then.
	Failures []ReadFailure
}

// Section names a part of an Observation.
type Section string

// The parts of an Observation that are read from the API server.
const (
	SectionManagedResource     Section = "ManagedResource"
	SectionStatefulSet         Section = "StatefulSet"
	SectionPods                Section = "Pods"
	SectionClaims              Section = "PersistentVolumeClaims"
	SectionClaimEvents         Section = "Events"
	SectionVolumes             Section = "PersistentVolumes and Nodes"
	SectionStorageClasses      Section = "StorageClasses"
	SectionLeases              Section = "Leases"
	SectionRestoreVerification Section = "Jobs"
	SectionSecrets             Section = "Secrets"
	SectionGardener            Section = "BackupEntries and Clusters"
	SectionTasks               Section = "EtcdOpsTasks"
)

// ReadFailure is a part of an Observation that could not be read.
type ReadFailure struct {
	// Section is the part.
	Section Section
	// Message is the error's text, without secrets.
	Message string
}

// Failure returns why the section could not be read; empty when it was read.
func (o Observation) Failure(section Section) string {
	for _, failure := range o.Failures {
		if failure.Section == section {
			return failure.Message
		}
	}

	return ""
}

// ManagedResource is the observed ManagedResource.
type ManagedResource struct {
	// Exists is false if there is none. All other fields except Name are zero then.
	Exists bool
	// Name of the ManagedResource, also set when it does not exist.
	Name string
	// UID of the ManagedResource.
	UID types.UID
	// Deleting is true while it is being deleted.
	Deleting bool
	// GenerationObserved is true if gardener-resource-manager has observed the current generation. Otherwise the conditions are about an
	// earlier one.
	GenerationObserved bool
	// AppliesStatefulSet is true when the operator has created the ManagedResource, and the resource manager has applied the StatefulSet from it.
	AppliesStatefulSet bool
	// ReconcileRequested is true while gardener-resource-manager has not processed the operation annotation yet.
	ReconcileRequested bool
	// Applied, Healthy and Progressing are the conditions ResourcesApplied, ResourcesHealthy, ResourcesProgressing.
	Applied, Healthy, Progressing ConditionFact
}

// IsApplied is true when the resource manager has applied the current generation.
func (m ManagedResource) IsApplied() bool {
	return m.Exists && !m.Deleting && m.GenerationObserved && m.Applied.Status == "True"
}

// IsRefused is true if gardener-resource-manager could not apply. It does not count such a generation as observed. During the next attempt
// it reports Progressing, with reason and message of the failure before.
func (m ManagedResource) IsRefused() bool {
	return m.Applied.Status == "False" || m.Applied.Status == "Progressing" && m.Applied.Reason == "ApplyFailed"
}

// ConditionFact is a condition of another object. The zero value is a condition that does not exist.
type ConditionFact struct {
	// Status is True, False, Unknown, Progressing or, where there is no condition, empty.
	Status string
	// Reason and Message are those of the other object.
	Reason, Message string
	// LastTransitionTime and LastUpdateTime are those of the other object.
	LastTransitionTime, LastUpdateTime time.Time
}
