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

// Node is what was seen of a node to which a volume is bound.
type Node struct {
	// Name of the node.
	Name string
	// Exists is false when there is no such node.
	Exists bool
	// OutOfService is true when somebody has said, by the taint node.kubernetes.io/out-of-service, that it does not come back.
	OutOfService bool
}

// ClaimFor returns the claim of the member with the ordinal; nil when nobody looked for it.
func (o Observation) ClaimFor(ordinal int) *Claim {
	for i := range o.Claims {
		if o.Claims[i].Ordinal == ordinal {
			return &o.Claims[i]
		}
	}

	return nil
}

// VolumeLostReason says why the volume of a member is lost for good; empty when it is not, or when that is not certain. A node that is
// only out of reach has lost nothing.
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

	return false // nobody looked
}

// Claim is what was seen of a volume claim.
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
	// Nodes are the only nodes on which its volume can be used, sorted. Empty: any, or nobody looked.
	Nodes []string
	// StorageClass of the claim. Empty: none.
	StorageClass string
	// Requested and Capacity are sizes in bytes: what is asked for, and what the volume has. 0: not known.
	Requested, Capacity int64
	// ResizeProblem is what keeps the volume from having what was asked for, in the words of the claim's conditions. Empty: nothing is
	// said, or it only takes its time.
	ResizeProblem string
	// RemountSince is since when the file system waits to be made as large as the volume, which is when a pod mounts it or, where the
	// driver can do it in use, any moment. Zero: it does not wait.
	RemountSince time.Time
	// RefusedSize is the number of bytes that the API server has lately refused to let it be asked for, and RefusedWhy what it said,
	// as of a quota. 0: it has refused none, or nobody has asked for a while.
	RefusedSize int64
	RefusedWhy  string
	// Expandable is true when its StorageClass allows it to grow. Nil: nobody looked, since it is as large as the spec asks for.
	Expandable *bool
	// Warnings are the messages of the newest warning events of a claim that is not bound or is to grow, sorted, each once.
	Warnings []string
}
