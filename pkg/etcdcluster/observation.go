// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Observation is everything that one pass read about one Etcd. The zero value is a cluster of which nothing exists.
// It holds facts only: what could not be read is a fact too, see Failures and EtcdResponses.
type Observation struct {
	// ManagedResource is the ManagedResource that holds the rendering.
	ManagedResource ManagedResource
	// State is the durable record on the ManagedResource. Zero: there is no ManagedResource.
	State state.State
	// StoreLocation is the location of State.Store as the Leases of snapshots record it. Empty: not recorded, or not readable.
	StoreLocation string
	// StatefulSet runs the members.
	StatefulSet StatefulSet
	// Pods are the members' pods, sorted by ordinal. Pods of Jobs are not among them.
	Pods []Pod
	// Claims are the volume claims of the members, by exact name, sorted by ordinal.
	Claims []Claim
	// ForeignClaims are the claims that have names of the members' claims, that were created neither for the Etcd nor for a previous one of its
	// name, and that no member uses, sorted by ordinal. No decision is about them.
	ForeignClaims []Claim
	// Nodes are the nodes to which volumes of members that do not serve are bound, sorted by name. Others are not looked at.
	Nodes []Node
	// MemberLeases are the leases of the members that exist, sorted by name.
	MemberLeases []Lease
	// FullSnapshotLease is the lease in which the sidecar records full snapshots. Zero: it does not exist.
	FullSnapshotLease Lease
	// DeltaSnapshotLease is the lease in which the sidecar records delta snapshots. Zero: it does not exist.
	DeltaSnapshotLease Lease
	// RestoreVerification is the Job that rehearses a restore. Zero: there is none, or nobody looked.
	RestoreVerification RestoreVerification
	// Secrets are the Secrets that the pods need, whether they exist or not, sorted by name.
	Secrets []Secret
	// Gardener is what Gardener says about the namespace. Zero: nobody asked for it.
	Gardener Gardener
	// LocalStore is the directory on the node that the Secret of a Local store names. Zero: the store is none, or nobody asked for it.
	LocalStore LocalStore
	// Issued are the Secrets that the secrets manager keeps for the Etcd, sorted by name. Nil: nobody asked for them.
	Issued []IssuedSecret
	// Etcd is what the members themselves answered.
	Etcd EtcdResponses
	// SnapshotAttempts is how the calls stand that take a full snapshot before members stop or data is discarded.
	SnapshotAttempts SnapshotAttempts
	// Defragmentation is the name of the EtcdOpsTask that defragments the members now. Empty: none does.
	Defragmentation string
	// FullSnapshotRequested is when the newest EtcdOpsTask that takes a full snapshot was created. Zero: there is none.
	FullSnapshotRequested time.Time
	// PeerChangePending is true where the spec asks for peer URLs that PinnedTLS or PinnedPort keep from being rendered now.
	PeerChangePending bool
	// Failures are the parts that could not be read; such a part is zero above, which then says nothing.
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

// ManagedResource is what was seen of the ManagedResource.
type ManagedResource struct {
	// Exists is false when there is none; all else is zero then.
	Exists bool
	// Name of the ManagedResource, also set when it does not exist.
	Name string
	// UID of the ManagedResource.
	UID types.UID
	// Deleting is true while it is being deleted.
	Deleting bool
	// GenerationObserved is true when the resource manager has seen the current generation; the conditions speak about
	// an earlier one otherwise.
	GenerationObserved bool
	// AppliesStatefulSet is true when the operator has created the ManagedResource, and the resource manager has applied the StatefulSet from it.
	AppliesStatefulSet bool
	// ReconcileRequested is true while the operation annotation waits to be taken up by the resource manager.
	ReconcileRequested bool
	// Applied, Healthy and Progressing are the conditions ResourcesApplied, ResourcesHealthy, ResourcesProgressing.
	Applied, Healthy, Progressing ConditionFact
}

// IsApplied is true when the resource manager has applied the current generation.
func (m ManagedResource) IsApplied() bool {
	return m.Exists && !m.Deleting && m.GenerationObserved && m.Applied.Status == "True"
}

// IsRefused is true when the resource manager could not apply. It does not count such a generation as observed, and while it
// tries again it says Progressing, with reason and message of the failure before.
func (m ManagedResource) IsRefused() bool {
	return m.Applied.Status == "False" || m.Applied.Status == "Progressing" && m.Applied.Reason == "ApplyFailed"
}

// ConditionFact is a condition of another object. The zero value is a condition that does not exist.
type ConditionFact struct {
	// Status is True, False, Unknown, Progressing or, where there is no condition, empty.
	Status string
	// Reason and Message as the other object tells them.
	Reason, Message string
	// LastTransitionTime and LastUpdateTime as the other object tells them.
	LastTransitionTime, LastUpdateTime time.Time
}
