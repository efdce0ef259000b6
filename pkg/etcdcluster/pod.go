// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Names of the containers of a member's pod.
const (
	ContainerEtcd          = "etcd"
	ContainerBackupRestore = "backup-restore"
)

// Pod is the observed pod of a member.
type Pod struct {
	// Name of the pod.
	Name string
	// Ordinal is the number at the end of its name.
	Ordinal int
	// UID of the pod: the precondition of each action on it.
	UID types.UID
	// ResourceVersion of the observed pod: the precondition of actions that depend on its state.
	ResourceVersion string
	// RevisionHash is the revision of the template of the StatefulSet that the pod was created from.
	RevisionHash string
	// OwnerUID is the UID of its controlling owner. Empty: none.
	OwnerUID types.UID
	// Phase of the pod, for example Running.
	Phase string
	// Ready is its condition Ready, ContainersReady its condition ContainersReady.
	Ready, ContainersReady bool
	// ReadyChangedAt is when its condition Ready last changed. Zero: it has none.
	ReadyChangedAt time.Time
	// Deleting is true while it is being deleted.
	Deleting bool
	// DeletionTime is when its containers have to have stopped, at the end of its grace period. Zero: it is not being deleted.
	DeletionTime time.Time
	// Node that it runs on. Empty: not scheduled.
	Node string
	// IPs of the pod, the primary first.
	IPs []string
	// CreationTime is when it was created.
	CreationTime time.Time
	// Unschedulable is the message of the scheduler if the pod has no node. Empty: scheduled, or not processed yet.
	Unschedulable string
	// Containers, init containers first, in the order of the pod's spec.
	Containers []Container
	// Store is the fingerprint of its store settings, see StoreFingerprint.
	Store string
	// StoreLocation is the location of its store without endpoint and account, see StoreLocationOf. Empty: not known, or no store.
	StoreLocation string
	// StoreSecret is the name of the Secret with the credentials of its store. Empty: none.
	StoreSecret string
	// TLS are the Secrets that it mounts for TLS.
	TLS MountedTLS
	// ClientTLS names the Secrets with which its clients connect. Nil: clients connect without TLS.
	ClientTLS *ClientSecrets
	// ClientPort is the port for client requests. 0: unknown.
	ClientPort int32
	// PeerPort is the port for peer traffic. 0: unknown.
	PeerPort int32
	// PeerTLS is true if its peer traffic uses TLS.
	PeerTLS bool
	// HasPreStopHook is true if its etcd waits before it stops. The operator renders the hook for multi-member clusters only.
	HasPreStopHook bool
	// SelectedFor is the value of the label with which the client Service selects pods while members are removed: the number of members that
	// stay. Empty: not set.
	SelectedFor string
	// Excluded is true if its label says that the client Service does not select it. Its member has other data than a quorum, or a volume migration removes
	// the member.
	Excluded bool
	// Refreshed is the rendering in its annotation for the kubelet. Empty: not set.
	Refreshed string
	// EvictionRequestedAt is when its eviction was requested and rejected for the time of a surge. Zero: it was not requested.
	EvictionRequestedAt time.Time
	// ConfigChecksum is the checksum of etcd's configuration in its annotations. Empty: not set.
	ConfigChecksum string
	// CertificatesChecksum is the checksum in its annotations of the certificates of the user. Empty: not set.
	CertificatesChecksum string
}

// ClientSecrets are the Secrets with which clients of a member connect, as its pod mounts them.
type ClientSecrets struct {
	// CA is the name of the Secret with the CA of the member's certificate.
	CA string
	// Client is the name of the Secret with a client certificate. Empty: none.
	Client string
}

// Image returns the image of a container in the spec of the pod. Empty: there is no such container.
func (p Pod) Image(container string) string {
	for _, one := range p.Containers {
		if one.Name == container {
			return one.Image
		}
	}

	return ""
}

// Container is what was seen of a container.
type Container struct {
	// Name of the container.
	Name string
	// Init is true for init containers.
	Init bool
	// Image as the pod's spec names it.
	Image string
	// Ready as its status says.
	Ready bool
	// State is Waiting, Running or Terminated. Empty: no status yet.
	State ContainerState
	// Reason of the state, for example ImagePullBackOff or CrashLoopBackOff. Empty: none.
	Reason string
	// Message of the state. Empty: none.
	Message string
	// LastTerminationReason is the reason for which its previous run ended, for example OOMKilled. Empty: there was none.
	LastTerminationReason string
	// Restarts counts its restarts.
	Restarts int32
	// StartedAt is when its current run began. Zero: it does not run.
	StartedAt time.Time
}

// ContainerState is what a container does.
type ContainerState string

// The states of a container.
const (
	ContainerWaiting    ContainerState = "Waiting"
	ContainerRunning    ContainerState = "Running"
	ContainerTerminated ContainerState = "Terminated"
)

// PodFor returns the pod with the ordinal. Nil: there is none. It takes a pointer, since it is called often and an observation is large.
func (o *Observation) PodFor(ordinal int) *Pod {
	for i := range o.Pods {
		if o.Pods[i].Ordinal == ordinal {
			return &o.Pods[i]
		}
	}

	return nil
}

// IsOutdated is true if the pod was created from another template than the latest. It is false while the StatefulSet controller has not
// observed the latest spec, because UpdateRevision is about an older one then.
func (p Pod) IsOutdated(statefulSet StatefulSet) bool {
	return statefulSet.GenerationObserved() && statefulSet.UpdateRevision != "" && p.RevisionHash != statefulSet.UpdateRevision
}

// failedPulls are reasons of waiting of containers whose image is not there.
var failedPulls = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true, "ImageInspectError": true, "RegistryUnavailable": true,
}

// ImagePullError names the first image of the pod that cannot be pulled, and the remedy. Empty: none.
func (p Pod) ImagePullError() string {
	for _, container := range p.Containers {
		if !container.hasImagePullError() {
			continue
		}
		field := "the operator's images"
		switch container.Name {
		case ContainerEtcd:
			field = "spec.etcd.image"
		case ContainerBackupRestore:
			field = "spec.backup.image"
		}

		return fmt.Sprintf("image %s of container %s of pod %s cannot be pulled (%s); correct %s, or let node %s have the image",
			container.Image, container.Name, p.Name, container.Reason, field, p.Node)
	}

	return ""
}

// hasImagePullError is true for a container that waits because its image cannot be pulled.
func (c Container) hasImagePullError() bool {
	return c.State == ContainerWaiting && failedPulls[c.Reason]
}

// hasNeverRun is true for a container without a run that ended.
func (c Container) hasNeverRun() bool { return c.Restarts == 0 && c.LastTerminationReason == "" }

// ordinaryWaits are reasons of waiting that every container goes through.
var ordinaryWaits = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

func (c Container) waitingReason() string {
	switch {
	case c.State == ContainerWaiting && !ordinaryWaits[c.Reason]:
		if c.LastTerminationReason != "" {
			return "waits: " + c.Reason + " (ended before: " + c.LastTerminationReason + ")"
		}

		return "waits: " + c.Reason
	case c.State == ContainerTerminated && !c.Init:
		return "has ended: " + c.Reason
	default:
		return ""
	}
}

// EvictionTimeout is how long the eviction of the only member waits for a surge.
const EvictionTimeout = 10 * time.Minute

// IsEvictionPending is true while the eviction of the pod waits for a surge.
func (p Pod) IsEvictionPending(now time.Time) bool {
	return !p.EvictionRequestedAt.IsZero() && now.Before(p.EvictionRequestedAt.Add(EvictionTimeout))
}

// OutdatedPods are the names of the pods that were created from another template than the latest.
func OutdatedPods(o Observation) []string {
	var outdated []string
	for _, pod := range o.Pods {
		if pod.IsOutdated(o.StatefulSet) {
			outdated = append(outdated, pod.Name)
		}
	}

	return outdated
}

// NeverStarts is true for a pod with a container that has not run yet and whose image cannot be pulled. A container that has run may have
// to pull its image again when it restarts, and succeed.
func (p Pod) NeverStarts() bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.hasImagePullError() && c.hasNeverRun() })
}

// IsRunning is true for a pod whose etcd container runs, ready or not.
func (p Pod) IsRunning() bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Name == ContainerEtcd && c.State == ContainerRunning })
}

// HasStarted is true for a pod whose etcd runs, or has run.
func (p Pod) HasStarted() bool {
	return p.IsRunning() || slices.ContainsFunc(p.Containers, func(c Container) bool {
		return c.Name == ContainerEtcd && (c.State == ContainerTerminated || c.Restarts > 0)
	})
}

// Restarts returns the number of restarts of a container. 0: there were none, or there is no such container.
func (p Pod) Restarts(name string) int32 {
	for _, container := range p.Containers {
		if container.Name == name {
			return container.Restarts
		}
	}

	return 0
}

// RunsSince is when the current run of the container with the name began. Zero: the container does not run.
func (p Pod) RunsSince(name string) time.Time {
	for _, container := range p.Containers {
		if container.Name == name && container.State == ContainerRunning {
			return container.StartedAt
		}
	}

	return time.Time{}
}

// SidecarStartedAt is when the sidecar of the pod started last; before it ever ran, when the pod was created.
func (p Pod) SidecarStartedAt() time.Time {
	since := p.CreationTime
	for _, container := range p.Containers {
		if container.Name == ContainerBackupRestore {
			since = Later(since, container.StartedAt)
		}
	}

	return since
}

// IsNodeUnreachable is true if only the API server reports that the pod is not ready: its node is unreachable.
func (p Pod) IsNodeUnreachable() bool { return !p.Ready && p.ContainersReady }

// ReadinessSince is since when the pod has been ready, or has not been ready. A pod without a condition Ready has not been ready since its
// creation.
func (p Pod) ReadinessSince() time.Time { return Later(p.ReadyChangedAt, p.CreationTime) }

// ActiveClientPort is the port for client requests. It is the port of the StatefulSet as soon as a pod was created with it, because the
// Service targets no other port then. Otherwise it is the port of the newest pod. 0: unknown.
func (o Observation) ActiveClientPort() int32 {
	rendered, youngest := o.StatefulSet.ClientPort, Pod{}
	for _, pod := range o.Pods {
		switch {
		case pod.ClientPort == 0:
		case pod.ClientPort == rendered:
			return rendered
		case !pod.CreationTime.Before(youngest.CreationTime):
			youngest = pod
		}
	}

	return cmp.Or(youngest.ClientPort, rendered)
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}
