// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
)

// Observation is everything that one pass read about one Etcd. The zero value is a cluster of which nothing exists.
// It holds facts only: what could not be read is a fact too, see Failures and EtcdAnswers.
type Observation struct {
	// ManagedResource is the ManagedResource that holds the rendering.
	ManagedResource ManagedResource
	// StatefulSet runs the members.
	StatefulSet StatefulSet
	// Pods are the members' pods, sorted by ordinal. Pods of Jobs are not among them.
	Pods []Pod
	// Claims are the volume claims of the members, by exact name, sorted by ordinal.
	Claims []Claim
	// Nodes are the nodes to which volumes of members that do not serve are bound, sorted by name. Others are not looked at.
	Nodes []Node
	// MemberLeases are the leases of the members that exist, sorted by name.
	MemberLeases []Lease
	// FullSnapshotLease is the lease in which the sidecar records full snapshots. Zero: it does not exist.
	FullSnapshotLease Lease
	// DeltaSnapshotLease is the lease in which the sidecar records delta snapshots. Zero: it does not exist.
	DeltaSnapshotLease Lease
	// Rehearsal is the Job that rehearses a restore. Zero: there is none, or nobody looked.
	Rehearsal Rehearsal
	// Secrets are the Secrets that the pods need, whether they exist or not, sorted by name.
	Secrets []Secret
	// Gardener is what Gardener says about the namespace. Zero: nobody asked for it.
	Gardener Gardener
	// Issued are the Secrets that the secrets manager keeps for the Etcd, sorted by name. Nil: nobody asked for them.
	Issued []IssuedSecret
	// Etcd is what the members themselves answered.
	Etcd EtcdAnswers
	// SnapshotCalls is how the calls stand that take a full snapshot before members stop or data is discarded.
	SnapshotCalls SnapshotCalls
	// Defragmentation is the name of the EtcdOpsTask that defragments the members now. Empty: none does.
	Defragmentation string
	// FullSnapshotRequested is when the newest EtcdOpsTask that takes a full snapshot was created. Zero: there is none.
	FullSnapshotRequested time.Time
	// PeerChangePending is true where the spec asks for peer URLs that BoundPeers or BoundPeerPort keep from being rendered now.
	PeerChangePending bool
	// InitialClusterToken is the token that the cluster was formed with by a predecessor. Empty: it is not adopted.
	InitialClusterToken string
	// Failures are the parts that could not be read; such a part is zero above, which then says nothing.
	Failures []ReadFailure
}

// Section names a part of an Observation.
type Section string

// The parts of an Observation that are read from the API server.
const (
	SectionManagedResource Section = "ManagedResource"
	SectionStatefulSet     Section = "StatefulSet"
	SectionPods            Section = "Pods"
	SectionClaims          Section = "PersistentVolumeClaims"
	SectionClaimEvents     Section = "Events"
	SectionVolumes         Section = "PersistentVolumes and Nodes"
	SectionStorageClasses  Section = "StorageClasses"
	SectionLeases          Section = "Leases"
	SectionRehearsal       Section = "Jobs"
	SectionSecrets         Section = "Secrets"
	SectionGardener        Section = "BackupEntries and Clusters"
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
	// ReconcileRequested is true while the operation annotation waits to be taken up by the resource manager.
	ReconcileRequested bool
	// Applied, Healthy and Progressing are the conditions ResourcesApplied, ResourcesHealthy, ResourcesProgressing.
	Applied, Healthy, Progressing ConditionFact
	// TLSMode, CARotation, Store, Defaults are the raw values of our annotations. Empty: not set.
	TLSMode, CARotation, Store, Defaults string
	// StorePlace is the place in Store as the Leases of snapshots name it. Empty: not set, or not to be read.
	StorePlace string
	// Restore is the phase of a restore that goes on, from our annotation. Empty: none.
	Restore string
	// Size is the last size above 0, from our annotation. 0: not known.
	Size int32
	// FinalSnapshot is what our annotation remembers of the snapshot before the members stopped. Nil: nothing.
	FinalSnapshot *FinalSnapshot
	// Replicas are the pods that were rendered last, from our annotation. Nil: not known.
	Replicas *int32
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

// Claim is what was seen of a volume claim.
type Claim struct {
	// Name of the claim; set also when it does not exist.
	Name string
	// Ordinal of the member that uses it.
	Ordinal int
	// Exists is false when there is no such claim; all else is zero then.
	Exists bool
	// Foreign is true for a claim that was not created for the Etcd or for a previous one of its name, and that no member uses.
	Foreign bool
	// UID of the claim.
	UID types.UID
	// CreationTime is when it was created.
	CreationTime time.Time
	// Deleting is true while it is being deleted.
	Deleting bool
	// Bound is true when it has a volume.
	Bound bool
	// Volume is the name of its volume. Empty: none.
	Volume string
	// Lost is true when it had a volume that does not exist any more.
	Lost bool
	// Nodes are the only nodes on which its volume can be used, sorted. Empty: any, or nobody looked.
	Nodes []string
	// StorageClass of the claim. Empty: none.
	StorageClass string
	// Requested and Capacity are sizes in bytes: what is asked for, and what the volume has. 0: not known.
	Requested, Capacity int64
	// ResizeTrouble is what keeps the volume from having what was asked for, in the words of the claim's conditions. Empty: nothing is
	// said, or it only takes its time.
	ResizeTrouble string
	// RemountSince is since when the file system waits to be made as large as the volume, which is when a pod mounts it or, where the
	// driver can do it in use, any moment. Zero: it does not wait.
	RemountSince time.Time
	// RefusedSize is the number of bytes that the API server has lately refused to let it be asked for, and RefusedWhy what it said,
	// as of a quota. 0: it has refused none, or nobody has asked for a while.
	RefusedSize int64
	RefusedWhy  string
	// Growable is true when its StorageClass allows it to grow. Nil: nobody looked, since it is as large as the spec asks for.
	Growable *bool
	// Warnings are the messages of the newest warning events of a claim that is not bound or is to grow, sorted, each once.
	Warnings []string
}

// Lease is what was seen of a lease of a member or of snapshots.
type Lease struct {
	// Exists is false when there is no such lease; all else is zero then.
	Exists bool
	// Name of the lease.
	Name string
	// UID of the lease.
	UID types.UID
	// OwnerUID is the UID of its controlling owner. Empty: none.
	OwnerUID types.UID
	// Holder is its holder identity: `<memberID>:<role>` or `<memberID>:<clusterID>:<role>` for members, a revision for
	// snapshots. Empty: never written.
	Holder string
	// RenewTime is when it was last renewed. Zero: never.
	RenewTime time.Time
	// CreationTime is when it was created.
	CreationTime time.Time
	// Store is the place of the snapshots that it tells of, from our annotation. Empty: not known, or a lease of a member.
	Store string
	// TLSEnabled is what the sidecar says about its member's peer URLs. Nil: it has not said anything.
	TLSEnabled *bool
}

// Secret is what is known about a Secret that pods need: never its content.
type Secret struct {
	// Name of the Secret.
	Name string
	// Uses say which fields of the spec need it, and which keys.
	Uses []helper.SecretUse
	// Exists is false when there is no such Secret.
	Exists bool
	// Keys are the names of its data keys, sorted.
	Keys []string
	// Certificates are the certificates in it, by key, sorted. Nil: it holds none.
	Certificates []Certificate
}

// Certificate is what was seen of a certificate.
type Certificate struct {
	// Key of the Secret's data.
	Key string
	// NotBefore and NotAfter are the times between which it is valid. Of several certificates under one key the times are
	// those of the first: the certificate itself where others are its CAs, and the newest in a bundle of the secrets
	// manager.
	NotBefore, NotAfter time.Time
}
