// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Heartbeat is what the sidecar of a member writes into the holder identity of the member's lease.
type Heartbeat struct {
	// MemberID of the member.
	MemberID uint64
	// ClusterID of its cluster. 0: the version of the sidecar does not report it.
	ClusterID uint64
	// Role of the member. A learner has the role Member.
	Role druidv1alpha1.EtcdRole
}

// ParseHeartbeat reads a holder identity: `<memberID>:<role>` or `<memberID>:<clusterID>:<role>`, ids in hexadecimal. The
// error says what cannot be read; it is also returned for an empty identity, which a sidecar never writes.
func ParseHeartbeat(identity string) (Heartbeat, error) {
	parts := strings.Split(identity, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return Heartbeat{}, fmt.Errorf("holder identity %q has neither the form memberID:role nor memberID:clusterID:role", identity)
	}

	var heartbeat Heartbeat
	var err error
	if heartbeat.MemberID, err = parseID(parts[0]); err != nil {
		return Heartbeat{}, fmt.Errorf("member id in holder identity %q: %w", identity, err)
	}
	if len(parts) == 3 {
		if heartbeat.ClusterID, err = parseID(parts[1]); err != nil {
			return Heartbeat{}, fmt.Errorf("cluster id in holder identity %q: %w", identity, err)
		}
	}
	switch role := druidv1alpha1.EtcdRole(parts[len(parts)-1]); role {
	case druidv1alpha1.EtcdRoleLeader, druidv1alpha1.EtcdRoleMember:
		heartbeat.Role = role
	default:
		return Heartbeat{}, fmt.Errorf("role %q in holder identity %q is neither Leader nor Member", role, identity)
	}

	return heartbeat, nil
}

// String is the holder identity from which ParseHeartbeat reads it.
func (h Heartbeat) String() string {
	if h.ClusterID == 0 {
		return FormatID(h.MemberID) + ":" + string(h.Role)
	}

	return FormatID(h.MemberID) + ":" + FormatID(h.ClusterID) + ":" + string(h.Role)
}

func parseID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a hexadecimal number", text)
	}

	return id, nil
}

// FormatID is the text form of a member or cluster id: hexadecimal without leading zeros.
func FormatID(id uint64) string { return strconv.FormatUint(id, 16) }

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
	// Store is the location of the snapshots that the Lease records, from an annotation of the operator. Empty: unknown, or a Lease of a
	// member.
	Store string
	// AwaitsReset is true if the Lease may record a full snapshot from a time at which etcd rejected writes. Holder and RenewTime are zero
	// then. The care controller recreates the Lease.
	AwaitsReset bool
	// TLSEnabled is the scheme of the peer URLs that the sidecar reports for its member. Nil: it has not reported any.
	TLSEnabled *bool
}

// LeaseFor returns what the Lease of a member or of snapshots records.
func LeaseFor(object *coordinationv1.Lease) Lease {
	lease := Lease{
		Exists:       true,
		Name:         object.Name,
		UID:          object.UID,
		OwnerUID:     controllerUID(object),
		Holder:       ptr.Deref(object.Spec.HolderIdentity, ""),
		CreationTime: object.CreationTimestamp.Time,
		Store:        object.Annotations[druidv1alpha1.LeaseAnnotationStore],
		AwaitsReset:  object.Annotations[druidv1alpha1.LeaseAnnotationAwaitsReset] == "true",
	}
	if object.Spec.RenewTime != nil {
		lease.RenewTime = object.Spec.RenewTime.Time
	}
	if lease.AwaitsReset {
		lease.Holder, lease.RenewTime = "", time.Time{}
	}
	if value, set := object.Annotations[druidv1alpha1.MemberTLSEnabledAnnotation]; set {
		lease.TLSEnabled = new(value == "true")
	}

	return lease
}

// Revision is the revision that a Lease of snapshots records. 0: none.
func (l Lease) Revision() int64 {
	revision, err := strconv.ParseInt(l.Holder, 10, 64)
	if err != nil {
		return 0
	}

	return revision
}

// RecordsEarlierSnapshot is true for a Lease of snapshots that was recreated while a member ran, and records a snapshot from before. The
// sidecar writes the latest snapshot that it knows into an empty Lease, with the time of that snapshot. It is false if all pods are younger than
// the Lease: the cluster was restored from that snapshot.
func (o Observation) RecordsEarlierSnapshot(lease Lease) bool {
	return !lease.RenewTime.IsZero() && lease.RenewTime.Before(lease.CreationTime) &&
		slices.ContainsFunc(o.Pods, func(pod Pod) bool { return pod.CreationTime.Before(lease.CreationTime) })
}

// HasHeartbeatSinceStart is true where the sidecar of the pod has renewed the lease since it started.
func HasHeartbeatSinceStart(pod Pod, lease Lease) bool {
	return lease.RenewTime.After(pod.SidecarStartedAt())
}
