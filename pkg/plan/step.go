// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Step is one action on one object. The types of this file are its only implementations. A type switch over a Step must list all of them:
// the linter gochecksumtype reports a switch that does not.
//
//sumtype:decl
type Step interface {
	meta() Meta
	isStep()
}

// Meta identifies the object of a Step, in the namespace of the Etcd.
type Meta struct {
	// Object is the name of the object.
	Object string
	// UID is the precondition of the action: the API server refuses it for any other object of that name.
	UID types.UID
	// ResourceVersion is another precondition, where the state of the object led to the decision. Empty: its state does not matter.
	ResourceVersion string
}

func (m Meta) meta() Meta { return m }

// MetaOf returns the object of a Step.
func MetaOf(s Step) Meta { return s.meta() }

type (
	// DeletePod deletes a pod. The StatefulSet controller creates it again from the newest template.
	DeletePod struct {
		Meta
		// GracePeriod is how many seconds the kubelet waits before it kills the containers. 0: as many as the pod requests.
		GracePeriod int64
	}
	// EvictPod evicts the pod of a healthy member, so that the API server considers the PodDisruptionBudget and other evictions. The
	// operator tries a refused eviction again.
	EvictPod struct{ Meta }
	// MoveLeader asks the leader to transfer leadership. The leader is the member in the pod, or a member of the joined cluster.
	MoveLeader struct {
		Meta
		// Endpoint is the client endpoint of the leader if it is a member of the joined cluster. The object is then the StatefulSet. Empty: the
		// leader is the member in the pod.
		Endpoint string
		// To is the ID of the next leader, and ToName the name of that member.
		To     uint64
		ToName string
	}
	// PromoteMember promotes a learner, which is the member in the pod, to a voting member. etcd refuses a learner that has not caught up.
	// The operator then tries again.
	PromoteMember struct {
		Meta
		// Member is the ID of the learner.
		Member uint64
		// MaxLag is how many entries of the log the learner may lack right before the promotion. 0: etcd decides alone.
		MaxLag uint64
	}
	// RemoveMember removes a member from the cluster. Its etcd stops, and its data cannot be used again. Its object is the StatefulSet: the member
	// may have no pod.
	RemoveMember struct {
		Meta
		// Member is the ID of the member, and Name its name.
		Member uint64
		Name   string
		// Compare are the pods of the members that stay, if their data must be the same before the removal. Nil: it is not compared.
		Compare []types.UID
	}
	// SelectPod sets the label with which the client Service selects a pod while members are removed.
	SelectPod struct {
		Meta
		// Remaining is the value of the label: the number of members that stay.
		Remaining int32
	}
	// ExcludePod changes the label with which the client Service selects a pod.
	ExcludePod struct {
		Meta
		// Excluded is true if the Service is not to select the pod, and false if it is to select it again.
		Excluded bool
		// OtherData is true if its member has other data than a quorum. False: its member is removed next, or the Service is to select the pod again.
		OtherData bool
	}
	// RefreshPod sets an annotation of a pod, so that the kubelet updates the configuration in its volume without delay.
	RefreshPod struct {
		Meta
		// Rendering is the value of the annotation: the checksum of the rendering that contains the configuration, and since when it is rendered.
		Rendering string
	}
	// UpdatePeerURLs registers peer URLs for the member in the pod. No member restarts.
	UpdatePeerURLs struct {
		Meta
		// Member is the ID of the member.
		Member uint64
		// URLs replace the registered peer URLs of the member. Never empty.
		URLs []string
	}
	// ReplaceClaim deletes a claim whose volume is lost, or has other data than a quorum. The StatefulSet controller creates it again.
	ReplaceClaim struct{ Meta }
	// ResizeClaim requests a larger volume for a claim. The volume is expanded in use.
	ResizeClaim struct {
		Meta
		// Size is the requested size in bytes.
		Size int64
	}
	// DeleteClaim deletes a claim of a cluster that is restored from its backup store, or of a member that was removed from etcd.
	DeleteClaim struct {
		Meta
		// IsRemoved is true for the claim of a member that was removed from etcd.
		IsRemoved bool
	}
	// VerifyRestore creates the Job that restores the newest snapshots next to the volumes that a restore would delete. Its UID is that of
	// the Etcd.
	VerifyRestore struct{ Meta }
	// RecoverData creates the suspended Job that copies the data from which a cluster is recovered into its backup store. Its UID is that of the Etcd.
	RecoverData struct {
		Meta
		// Claim is the PersistentVolumeClaim with the data, and ClaimUID its UID. Empty: what the sidecar restores from the store is the data.
		Claim    string
		ClaimUID types.UID
		// MinRevision is the lowest revision with which the Job copies anything.
		MinRevision int64
		// Bump is by how much the revision is increased, so that clients notice that writes may be lost. 0: it stays.
		Bump int64
		// BumpBelow is the revision from which on the data was increased by an earlier Job, so that it stays.
		BumpBelow int64
		// Token is that of the chosen option.
		Token string
	}
	// ResumeJob resumes a suspended Job, which has no pod before.
	ResumeJob struct{ Meta }
	// DeleteRestoreJob deletes a Job of an earlier VerifyRestore, InspectClaim or RecoverData. Before claims are deleted, it deletes each Job whose pod uses one.
	DeleteRestoreJob struct{ Meta }
	// InspectClaim creates the Job that reads the revision of the database in the volume of a claim. Its object is the claim.
	InspectClaim struct{ Meta }
	// RetainVolume sets the reclaim policy of a volume to Retain, and labels it, before its claim is deleted.
	RetainVolume struct {
		Meta
		// Record is what the operator has recorded about the volume.
		Record state.RetainedVolume
	}
	// ReleaseVolume sets the original reclaim policy of a retained volume again, and removes the labels.
	ReleaseVolume struct {
		Meta
		// Record is what the operator has recorded about the volume.
		Record state.RetainedVolume
	}
	// ResetLease deletes the Lease of a member or of snapshots. The operator creates it again without a holder.
	ResetLease struct{ Meta }
	// RecreateStatefulSet tries the rendered StatefulSet by a dry run, deletes the live one without its pods, and requests
	// gardener-resource-manager to reconcile.
	RecreateStatefulSet struct{ Meta }
	// TakeSnapshot requests a full snapshot from the sidecar of the leader, and verifies it. Its object is the Etcd: each attempt finds the
	// leader again.
	TakeSnapshot struct {
		Meta
		// RejectWrites makes etcd reject all writes after the snapshot, and stores the writes until then. The data is deleted afterwards.
		RejectWrites bool
	}
	// RequestReconcile requests gardener-resource-manager to reconcile now. It harms no member.
	RequestReconcile struct{ Meta }
	// TakeDeltaSnapshot requests a delta snapshot from the sidecar of the leader. Its object is the pod of the leader.
	TakeDeltaSnapshot struct{ Meta }
	// CompactHistory removes the history of all keys up to a revision. Its object is the pod of the member that is called.
	CompactHistory struct {
		Meta
		// Revision up to which the history is removed. Clients that watch from an earlier one read again.
		Revision int64
	}
	// DefragmentMember defragments the database of the member in the pod. The member does not respond meanwhile.
	DefragmentMember struct{ Meta }
	// DisarmAlarm disarms an alarm NOSPACE. Its object is the Etcd: the member may not exist any more.
	DisarmAlarm struct {
		Meta
		// Member is the ID of the member of the alarm.
		Member uint64
	}
	// CountKeys counts the keys by their prefixes. Its object is the pod of the member that is called.
	CountKeys struct{ Meta }
	// RequestSnapshot creates an EtcdOpsTask that takes a full snapshot, and completes state.Space. Its object is the Etcd.
	RequestSnapshot struct {
		Meta
		// Task is the name of the EtcdOpsTask.
		Task string
	}
)

func (DeletePod) isStep()           {}
func (EvictPod) isStep()            {}
func (MoveLeader) isStep()          {}
func (PromoteMember) isStep()       {}
func (RemoveMember) isStep()        {}
func (SelectPod) isStep()           {}
func (ExcludePod) isStep()          {}
func (RefreshPod) isStep()          {}
func (UpdatePeerURLs) isStep()      {}
func (ReplaceClaim) isStep()        {}
func (ResizeClaim) isStep()         {}
func (DeleteClaim) isStep()         {}
func (VerifyRestore) isStep()       {}
func (RecoverData) isStep()         {}
func (ResumeJob) isStep()           {}
func (DeleteRestoreJob) isStep()    {}
func (InspectClaim) isStep()        {}
func (RetainVolume) isStep()        {}
func (ReleaseVolume) isStep()       {}
func (ResetLease) isStep()          {}
func (RecreateStatefulSet) isStep() {}
func (TakeSnapshot) isStep()        {}
func (RequestReconcile) isStep()    {}
func (TakeDeltaSnapshot) isStep()   {}
func (CompactHistory) isStep()      {}
func (DefragmentMember) isStep()    {}
func (DisarmAlarm) isStep()         {}
func (CountKeys) isStep()           {}
func (RequestSnapshot) isStep()     {}

// Traits are the properties of a Step that do not depend on the cluster.
type Traits struct {
	// Kind is the value of the metric label step, and the name of the Step in logs and messages.
	Kind string
	// Text describes the Step in the output of kubectl etcd plan.
	Text string
	// InterruptsMember is true if a member stops serving client requests, or stops being the leader.
	InterruptsMember bool
	// Poll is true if no watch reports the effect of the Step.
	Poll bool
	// DiscardsData is true if the Step deletes a volume that may have data. What a quorum confirms is recorded before.
	DiscardsData bool
}

// TraitsOf returns the traits of a Step.
func TraitsOf(s Step) Traits {
	object := s.meta().Object
	switch s := s.(type) {
	case DeletePod:
		return Traits{Kind: "DeletePod", Text: "delete pod " + object, InterruptsMember: true}
	case EvictPod:
		return Traits{Kind: "EvictPod", Text: "evict pod " + object, InterruptsMember: true}
	case MoveLeader:
		return traitsOfMove(s)
	case PromoteMember:
		return Traits{Kind: "PromoteMember", Text: "promote the learner in pod " + object}
	case RemoveMember, SelectPod, RefreshPod, ExcludePod:
		return traitsOfScaleIn(s)
	case UpdatePeerURLs:
		return Traits{Kind: "UpdatePeerURLs", Text: fmt.Sprintf("register peer URLs %s for the member in pod %s", strings.Join(s.URLs, ", "), object), Poll: true}
	case ReplaceClaim, ResizeClaim, DeleteClaim:
		return traitsOfClaim(s)
	case VerifyRestore, InspectClaim, RecoverData, ResumeJob:
		return traitsOfJob(s)
	case RetainVolume, ReleaseVolume:
		return traitsOfVolume(s)
	case DeleteRestoreJob:
		return Traits{Kind: "DeleteRestoreJob", Text: "delete Job " + object + ", which has verified a restore"}
	case ResetLease:
		return Traits{Kind: "ResetLease", Text: "reset Lease " + object}
	case RecreateStatefulSet:
		return Traits{Kind: "RecreateStatefulSet", Text: "recreate StatefulSet " + object + ", its pods keep running"}
	case TakeSnapshot:
		return traitsOfSnapshot(s)
	case TakeDeltaSnapshot, CompactHistory, DefragmentMember, DisarmAlarm, CountKeys, RequestSnapshot:
		return traitsOfSpace(s)
	case RequestReconcile:
		return Traits{Kind: "RequestReconcile", Text: "request gardener-resource-manager to reconcile ManagedResource " + object}
	default:
		panic(fmt.Sprintf("unknown step %T", s))
	}
}

// traitsOfSpace returns the traits of the steps that free space.
func traitsOfSpace(s Step) Traits {
	object := s.meta().Object
	switch s := s.(type) { //nolint:gochecksumtype // TraitsOf lists all steps
	case CompactHistory:
		return Traits{Kind: "CompactHistory", Text: fmt.Sprintf("remove the history up to revision %d", s.Revision), Poll: true}
	case DefragmentMember:
		return Traits{Kind: "DefragmentMember", Text: "defragment the member in pod " + object, InterruptsMember: true, Poll: true}
	case DisarmAlarm:
		return Traits{Kind: "DisarmAlarm", Text: fmt.Sprintf("disarm the alarm NOSPACE of member %x", s.Member), Poll: true}
	case CountKeys:
		return Traits{Kind: "CountKeys", Text: "count the keys by their prefixes", Poll: true}
	case RequestSnapshot:
		return Traits{Kind: "RequestSnapshot", Text: "create EtcdOpsTask " + s.Task + ", which takes a full snapshot", Poll: true}
	default:
		return Traits{Kind: "TakeDeltaSnapshot", Text: "take a delta snapshot", Poll: true}
	}
}

// traitsOfMove returns the traits of MoveLeader.
func traitsOfMove(s MoveLeader) Traits {
	from := "the member in pod " + s.Object
	if s.Endpoint != "" {
		from = "the member of the joined cluster at " + s.Endpoint
	}

	return Traits{Kind: "MoveLeader", Text: fmt.Sprintf("transfer leadership from %s to %s", from, s.ToName), InterruptsMember: true}
}

// traitsOfScaleIn returns the traits of RemoveMember, SelectPod, RefreshPod and ExcludePod.
func traitsOfScaleIn(s Step) Traits {
	object := s.meta().Object
	if removal, is := s.(RemoveMember); is {
		return Traits{Kind: "RemoveMember", Text: fmt.Sprintf("remove member %s from etcd", removal.Name), InterruptsMember: true}
	}
	if exclusion, is := s.(ExcludePod); is {
		return traitsOfExclusion(exclusion)
	}
	if _, is := s.(SelectPod); is {
		return Traits{Kind: "SelectPod", Text: "label pod " + object + " for the client Service"}
	}

	return Traits{Kind: "RefreshPod", Text: "update the configuration in pod " + object}
}

// traitsOfExclusion returns the traits of ExcludePod.
func traitsOfExclusion(s ExcludePod) Traits {
	text := "let the client Service select pod " + s.Object + " again"
	if s.Excluded {
		text = "exclude pod " + s.Object + " from the client Service"
	}

	return Traits{Kind: "ExcludePod", Text: text}
}

// traitsOfClaim returns the traits of ReplaceClaim, ResizeClaim and DeleteClaim.
func traitsOfClaim(s Step) Traits {
	object := s.meta().Object
	if _, is := s.(ResizeClaim); is {
		return Traits{Kind: "ResizeClaim", Text: "expand PersistentVolumeClaim " + object, Poll: true}
	}
	if _, is := s.(DeleteClaim); is {
		return Traits{Kind: "DeleteClaim", Text: "delete PersistentVolumeClaim " + object, DiscardsData: true}
	}

	return Traits{Kind: "ReplaceClaim", Text: "replace PersistentVolumeClaim " + object, DiscardsData: true}
}

// traitsOfJob returns the traits of VerifyRestore, InspectClaim, RecoverData and ResumeJob.
func traitsOfJob(s Step) Traits {
	object := s.meta().Object
	if recovery, is := s.(RecoverData); is {
		source := "what the backup store restores"
		if recovery.Claim != "" {
			source = "the data of PersistentVolumeClaim " + recovery.Claim
		}

		return Traits{Kind: "RecoverData", Text: fmt.Sprintf("create the suspended Job %s, which copies %s into the backup store", object, source)}
	}
	if _, is := s.(ResumeJob); is {
		return Traits{Kind: "ResumeJob", Text: "resume Job " + object + ", which copies data into the backup store"}
	}
	if _, is := s.(InspectClaim); is {
		return Traits{Kind: "InspectClaim", Text: "create a Job that reads the revision in the volume of PersistentVolumeClaim " + object}
	}

	return Traits{Kind: "VerifyRestore", Text: "create Job " + object + ", which verifies the restore"}
}

func traitsOfSnapshot(s TakeSnapshot) Traits {
	text := "take and verify a full snapshot"
	if s.RejectWrites {
		text += ", and reject writes afterwards"
	}

	return Traits{Kind: "TakeSnapshot", Text: text}
}

// traitsOfVolume returns the traits of RetainVolume and ReleaseVolume.
func traitsOfVolume(s Step) Traits {
	kind, policy := "RetainVolume", "Retain"
	if release, is := s.(ReleaseVolume); is {
		kind, policy = "ReleaseVolume", string(release.Record.ReclaimPolicy)+" again"
	}

	return Traits{Kind: kind, Text: fmt.Sprintf("set the reclaim policy of PersistentVolume %s to %s", s.meta().Object, policy), Poll: true}
}

// Trace describes a Step with its preconditions and arguments, for tests and logs.
func Trace(s Step) string {
	line := fmt.Sprintf("%s %s (%s)", TraitsOf(s).Kind, s.meta().Object, s.meta().UID)
	switch s := s.(type) {
	case ResizeClaim:
		line += fmt.Sprintf(" to %d bytes", s.Size)
	case MoveLeader:
		line += fmt.Sprintf(" to %x", s.To)
	case PromoteMember:
		line += fmt.Sprintf(" to %x", s.Member)
	case RemoveMember:
		line += fmt.Sprintf(" to %x", s.Member)
	case UpdatePeerURLs:
		line += fmt.Sprintf(" to %x at %s", s.Member, strings.Join(s.URLs, ", "))
	case TakeSnapshot:
		if s.RejectWrites {
			line += " and reject writes"
		}
	case RecoverData:
		line += s.arguments()
	case ReleaseVolume:
		line += " to " + string(s.Record.ReclaimPolicy)
	case CompactHistory:
		line += fmt.Sprintf(" to revision %d", s.Revision)
	case DisarmAlarm:
		line += fmt.Sprintf(" of %x", s.Member)
	case RequestSnapshot:
		line += " by " + s.Task
	case ExcludePod:
		if !s.Excluded {
			line += " again"
		}
	case SelectPod, RefreshPod, DeletePod, EvictPod, ReplaceClaim, DeleteClaim, VerifyRestore, ResumeJob, DeleteRestoreJob, InspectClaim, RetainVolume, ResetLease, RecreateStatefulSet,
		RequestReconcile,
		TakeDeltaSnapshot, DefragmentMember, CountKeys:
	}

	return line
}

// arguments describes the arguments for Trace.
func (s RecoverData) arguments() string {
	text := fmt.Sprintf(" from %q with revision %d or higher", s.Claim, s.MinRevision)
	if s.Bump > 0 {
		text += fmt.Sprintf(", bumped by %d", s.Bump)
	}

	return text
}
