// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Process is the state of the containers of one pod that no API reports.
type Process struct {
	// ClusterSize is the cluster size with which the pod was rendered. A sidecar reads it once, when it starts.
	ClusterSize int32
	// Advertised is from the configuration that the kubelet has projected.
	Advertised
	// staleTicks is the number of ticks for which the kubelet has not projected the configuration that is applied.
	staleTicks int
	// EtcdVersion is the minor version of etcd with which the pod was rendered. Empty: it is not known.
	EtcdVersion string
	// HasStore is true if the pod was rendered with a backup store.
	HasStore bool
	// HasServed is true from the moment when its sidecar found etcd healthy. The sidecar then reads the ConfigMap.
	HasServed bool
	// HasRegistered is true from the moment when its sidecar registered the peer URLs of its member. Each sidecar does this once.
	HasRegistered bool
	// WaitsForStore is true while the sidecar of a single member with data does not start etcd, since the store is unreachable.
	WaitsForStore bool
	// SidecarBroken is true if the sidecar does not start any more while etcd runs.
	SidecarBroken bool
	// IsJoining is true from the moment when its sidecar added a learner, or found it in the member list.
	IsJoining bool
	// Unanswered counts the ticks in which its sidecar did not reach the cluster that it is to join.
	Unanswered int
	// IsSeparate is true if its etcd runs on the data of a separate cluster, see Volume.Separate.
	IsSeparate bool
	// StoppedBehindStore is when its etcd ended while its database was older than the store. Zero: it did not.
	StoppedBehindStore time.Time
	// RestoresAt is when its sidecar stops trying to start etcd, and restores the store. Zero: it does not try.
	RestoresAt time.Time
	// LastReadyAt is when the kubelet last reported the pod as ready. Zero: never.
	LastReadyAt time.Time
}

// etcdContainer returns the container etcd of a pod, which is added to a pod without one.
func etcdContainer(pod *etcdcluster.Pod) *etcdcluster.Container {
	index := slices.IndexFunc(pod.Containers, func(container etcdcluster.Container) bool { return container.Name == etcdcluster.ContainerEtcd })
	if index < 0 {
		index = len(pod.Containers)
		pod.Containers = append(pod.Containers, etcdcluster.Container{Name: etcdcluster.ContainerEtcd})
	}

	return &pod.Containers[index]
}

// Process returns the process state of the pod with the UID.
func (c *Cluster) Process(uid types.UID) *Process {
	if c.processes[uid] == nil {
		c.processes[uid] = &Process{}
	}

	return c.processes[uid]
}

// statefulSetController creates missing pods, and stops pods above the number of replicas.
func (c *Cluster) statefulSetController() bool {
	statefulSet := &c.Objects.StatefulSet
	if !statefulSet.Exists || c.applied == nil {
		return false
	}
	if statefulSet.Deleting {
		*statefulSet = etcdcluster.StatefulSet{}

		return true
	}
	if statefulSet.ObservedGeneration != statefulSet.Generation {
		statefulSet.ObservedGeneration, statefulSet.UpdateRevision, statefulSet.Store = statefulSet.Generation, c.applied.Revision, c.applied.Store

		return true
	}
	changed := false
	for ordinal := range int(statefulSet.SpecReplicas) {
		if c.Objects.PodFor(ordinal) == nil {
			c.createPod(ordinal)
			changed = true
		}
	}
	for i := range c.Objects.Pods {
		if pod := &c.Objects.Pods[i]; pod.Ordinal >= int(statefulSet.SpecReplicas) && !pod.Deleting {
			c.terminate(pod)
			changed = true
		}
	}

	return changed
}

// createPod creates a pod and its claim. It waits while the claim is being deleted.
func (c *Cluster) createPod(ordinal int) {
	claim := c.claim(ordinal)
	if claim.Deleting {
		return
	}
	c.createClaim(claim)
	pod := etcdcluster.Pod{
		Name: helper.PodName(c.Etcd, ordinal), Ordinal: ordinal, UID: c.uid("pod"), RevisionHash: c.Objects.StatefulSet.UpdateRevision,
		OwnerUID: c.Objects.StatefulSet.UID, CreationTime: c.now, Store: c.Objects.StatefulSet.Store, TLS: c.applied.TLS,
		PeerTLS: c.applied.hasPeerTLS(), PeerPort: c.applied.PeerPort, HasPreStopHook: c.applied.HasPreStopHook,
		CertificatesChecksum: c.applied.CertificatesChecksum,
		Containers:           []etcdcluster.Container{{Name: etcdcluster.ContainerEtcd, Image: c.applied.Image}, {Name: etcdcluster.ContainerBackupRestore}},
	}
	c.Objects.Pods = append(c.Objects.Pods, pod)
	slices.SortFunc(c.Objects.Pods, func(a, b etcdcluster.Pod) int { return a.Ordinal - b.Ordinal })
	process := c.Process(pod.UID)
	process.Advertised = c.applied.Advertised
	process.ClusterSize, process.HasStore, process.EtcdVersion = c.applied.ClusterSize, c.applied.Store != "", c.applied.EtcdVersion
}

// claim returns the claim of the member with the ordinal, which may not exist yet.
func (c *Cluster) claim(ordinal int) *etcdcluster.Claim {
	if claim := c.Objects.ClaimFor(ordinal); claim != nil {
		return claim
	}
	c.Objects.Claims = append(c.Objects.Claims, etcdcluster.Claim{Name: helper.ClaimName(c.Etcd, ordinal), Ordinal: ordinal})

	return &c.Objects.Claims[len(c.Objects.Claims)-1]
}

// terminate stops the containers of a pod, which is then deleted.
func (c *Cluster) terminate(pod *etcdcluster.Pod) {
	if pod.Ready {
		pod.ReadyChangedAt = c.now
	}
	if !pod.Deleting {
		pod.DeletionTime = c.now
	}
	pod.Deleting, pod.Ready, pod.ContainersReady = true, false, false
}

// podCollector removes deleted pods once their kubelet confirms it, and the pods of nodes that are gone or out of service.
func (c *Cluster) podCollector() bool {
	before := len(c.Objects.Pods)
	c.Objects.Pods = slices.DeleteFunc(c.Objects.Pods, func(pod etcdcluster.Pod) bool {
		node := c.Node(pod.Node)
		if node == nil {
			return pod.Deleting
		}

		return node.Gone || node.OutOfService || pod.Deleting && !node.Partitioned
	})

	return len(c.Objects.Pods) != before
}

// kubelet starts containers and reports the readiness of pods. For a node that is unreachable, the API server reports it.
func (c *Cluster) kubelet() bool {
	changed := false
	for i := range c.Objects.Pods {
		pod := &c.Objects.Pods[i]
		container := etcdContainer(pod)
		wasReady, before := pod.Ready, container.State
		switch node := c.Node(pod.Node); {
		case pod.Deleting || node == nil:
		case node.Partitioned || node.Gone:
			pod.Ready = false // the other conditions stay as the kubelet last reported them
		case c.brokenImages[container.Image]:
			container.State, container.Reason = etcdcluster.ContainerWaiting, "ImagePullBackOff"
			pod.Ready, pod.ContainersReady = false, false
		default:
			c.projectConfiguration(c.Process(pod.UID))
			if c.triesAlone(pod) {
				break
			}
			if container.State == etcdcluster.ContainerRunning || !c.hasLeft(pod) { // the sidecar returns no configuration without advertised URLs
				c.runContainers(pod)
			}
		}
		if wasReady != pod.Ready {
			pod.ReadyChangedAt = c.now
		}
		if pod.Ready {
			c.Process(pod.UID).LastReadyAt = c.now
		}
		changed = changed || wasReady != pod.Ready || before != container.State
	}

	return changed
}

// triesAlone is true while the sidecar of a pod tries to start etcd alone. When it gives up, it restores the store.
func (c *Cluster) triesAlone(pod *etcdcluster.Pod) bool {
	process := c.Process(pod.UID)
	if process.RestoresAt.IsZero() {
		return false
	}
	if c.now.Before(process.RestoresAt) && process.ClusterSize == 1 {
		return true
	}
	c.restoreAlone(pod)

	return false
}

// projectionTicks is the number of ticks after which the kubelet projects a changed configuration without a change of the pod.
const projectionTicks = 12

// projectConfiguration projects a changed configuration after a while.
func (c *Cluster) projectConfiguration(process *Process) {
	if process.Advertised == c.applied.Advertised {
		process.staleTicks = 0
	} else if process.staleTicks++; process.staleTicks > projectionTicks {
		process.Advertised = c.applied.Advertised
	}
}

// runContainers runs etcd in a pod. The readiness probe is a linearizable read.
func (c *Cluster) runContainers(pod *etcdcluster.Pod) {
	container, process, volume := etcdContainer(pod), c.Process(pod.UID), c.volume(pod.Ordinal)
	isHeld := container.State != etcdcluster.ContainerRunning && c.appliedSize() == 1 && volume != nil && volume.Member != 0
	process.WaitsForStore = c.Store.Down && helper.IsStoreConfigured(c.Etcd) && (process.WaitsForStore || isHeld)
	if container.State != etcdcluster.ContainerRunning {
		for i := range pod.Containers {
			if sidecar := &pod.Containers[i]; sidecar.Name == etcdcluster.ContainerBackupRestore {
				sidecar.State, sidecar.StartedAt = etcdcluster.ContainerRunning, c.now
			}
		}
		container.StartedAt, process.IsJoining, process.Unanswered, process.IsSeparate = c.now, false, 0, false
	}
	container.State, container.Reason = etcdcluster.ContainerRunning, ""
	member := c.RunningMember(pod.Ordinal)
	container.Ready = c.foreignData[pod.Ordinal] && volume.Member == 0 || member != nil && !member.Learner && c.IsConnected(member)
	c.HasRunForeignData = c.HasRunForeignData || c.foreignData[pod.Ordinal]
	pod.Ready = container.Ready && !process.SidecarBroken
	pod.ContainersReady = pod.Ready
}
