// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Node is a node to which a volume is bound.
type Node struct {
	// Name of the node.
	Name string
	// Exists is false when there is no such node.
	Exists bool
	// OutOfService is true if the node has the taint node.kubernetes.io/out-of-service: it does not recover.
	OutOfService bool
}

// ClaimFor returns the claim of the member with the ordinal. Nil: the claim was not observed. It takes a pointer, since it is called often and
// an observation is large.
func (o *Observation) ClaimFor(ordinal int) *Claim {
	for i := range o.Claims {
		if o.Claims[i].Ordinal == ordinal {
			return &o.Claims[i]
		}
	}

	return nil
}

// VolumeLostReason returns why the volume of a member is lost. Empty: it is not lost, or that is not certain. A node that is only
// unreachable has lost nothing.
func (o Observation) VolumeLostReason(ordinal int) string {
	if claim := o.ClaimFor(ordinal); claim != nil && claim.Exists && claim.Lost {
		return fmt.Sprintf("the volume of claim %s does not exist any more", claim.Name)
	}

	return o.NodeLostReason(ordinal)
}

// NodeLostReason is VolumeLostReason for a volume that is lost with its node.
func (o Observation) NodeLostReason(ordinal int) string {
	claim := o.ClaimFor(ordinal)
	if claim == nil || !claim.Exists || len(claim.Nodes) == 0 {
		return ""
	}
	for _, name := range claim.Nodes {
		if !o.isNodeLost(name) {
			return ""
		}
	}

	return fmt.Sprintf("the volume of claim %s can be used on node %s alone, which is gone or out of service", claim.Name, strings.Join(claim.Nodes, ", "))
}

func (o Observation) isNodeLost(name string) bool {
	for _, node := range o.Nodes {
		if node.Name == name {
			return !node.Exists || node.OutOfService
		}
	}

	return false // the node was not observed
}

// MayHaveData is true if the claim exists and its volume was not deleted. Whether a node can still use the volume is not considered, see
// Observation.VolumeLostReason.
func (c Claim) MayHaveData() bool { return c.Exists && !c.Lost }

// Claim is the PersistentVolumeClaim of a member.
type Claim struct {
	// Name of the claim; set also when it does not exist.
	Name string
	// Ordinal of the member that uses it.
	Ordinal int
	// Exists is false when there is no such claim; all else is zero then.
	Exists bool
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
	// Nodes are the only nodes on which its volume can be used, sorted. Empty: any node, or not observed.
	Nodes []string
	// StorageClass of the claim. Empty: none.
	StorageClass string
	// Requested and Capacity are the requested size and the size of the volume, in bytes. 0: unknown.
	Requested, Capacity int64
	// ResizeProblem is why the volume does not have the requested size yet, from the conditions of the claim. Empty: no condition names a
	// problem.
	ResizeProblem string
	// RemountSince is since when the file system waits to be expanded to the size of the volume. That happens when a pod mounts it, or at
	// any moment if the driver can expand it in use. Zero: it does not wait.
	RemountSince time.Time
	// RefusedSize is the requested size in bytes that the API server refuses, for example because of a quota. RefusedWhy is its message. 0:
	// it refuses none, or it was not tried.
	RefusedSize int64
	RefusedWhy  string
	// Expandable is true if the StorageClass of the claim allows expansion. Nil: it was not observed, because the claim is as large as the
	// spec requests.
	Expandable *bool
	// Warnings are the messages of the newest warning events of a claim that is not bound or is to be expanded, sorted, without duplicates.
	Warnings []string
}
