// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

// refusalTimeout is how long the operator keeps in mind that the API server refused to expand a claim.
const refusalTimeout = time.Minute

// Volume is the volume of a claim.
type Volume struct {
	// Node on which the volume can be used. See Settings.NetworkVolumes.
	Node string
	// Member is the ID of the member whose data the volume holds. 0: none.
	Member uint64
	// Separate is true if etcd has formed a separate cluster on the volume instead of joining. The member never ran then.
	Separate bool
	// Lost is true when the volume does not exist any more.
	Lost bool
	// Size is the size of the file system in bytes. 0: there is none yet.
	Size int64
	// Data is the content of its database.
	Data history.Position
	// Corruption identifies wrong data. Volumes with the same value have the same data. 0: the data is correct.
	Corruption uint32
	// Name and UID of the PersistentVolume. Policy is its reclaim policy. Static is true if no provisioner has created it.
	Name   string
	UID    types.UID
	Policy corev1.PersistentVolumeReclaimPolicy
	Static bool
	// RetainedFor is the UID of the Etcd for which the operator retains it. Empty: it does not.
	RetainedFor types.UID
	// ClaimUID is the UID of its claim.
	ClaimUID types.UID
}

// volume returns the volume of the member with the ordinal. Nil: there is none.
func (c *Cluster) volume(ordinal int) *Volume {
	if existing := c.existing[ordinal]; existing != nil {
		return &existing.volume
	}
	if claim := c.Objects.ClaimFor(ordinal); claim != nil {
		return c.Volumes[claim.Name]
	}

	return nil
}

// createClaim creates the claim of a pod from the volume claim template.
func (c *Cluster) createClaim(claim *etcdcluster.Claim) {
	if claim.Exists {
		return
	}
	claim.Exists, claim.UID, claim.CreationTime = true, c.uid("claim"), c.now
	claim.Requested = c.Objects.StatefulSet.Rendering.VolumeSize()
	for _, template := range c.Objects.StatefulSet.Rendering.Fixed.ClaimTemplates {
		claim.StorageClass = ptr.Deref(template.StorageClass, "")
	}
}

// provision creates the volume of a claim on a node.
func (c *Cluster) provision(claim *etcdcluster.Claim, node *Node) {
	if c.Volumes[claim.Name] == nil {
		c.nextVolume++
		name := fmt.Sprintf("pv-%d", c.nextVolume)
		c.Volumes[claim.Name] = &Volume{Node: node.Name, Name: name, UID: types.UID(name + "-uid"), Policy: corev1.PersistentVolumeReclaimDelete, ClaimUID: claim.UID}
		claim.Bound = true
	}
}

// isInspected is true while there is a Job that uses the claim, also if it has ended.
func (c *Cluster) isInspected(claim etcdcluster.Claim) bool {
	return slices.ContainsFunc(c.Objects.Inspections, func(job etcdcluster.ClaimInspection) bool { return job.ClaimUID == claim.UID })
}

// volumeController removes deleted claims that no pod uses, and expands file systems.
func (c *Cluster) volumeController() bool {
	changed := false
	for i := range c.Objects.Claims {
		claim := &c.Objects.Claims[i]
		if pod := c.Objects.PodFor(claim.Ordinal); claim.Deleting && (pod == nil || pod.Node == "") && !c.isInspected(*claim) {
			c.removeClaim(claim)
			changed = true
		} else if volume := c.Volumes[claim.Name]; volume != nil && volume.Size < claim.Requested {
			changed = c.expand(claim, volume, pod) || changed
		}
	}

	return changed
}

func (c *Cluster) removeClaim(claim *etcdcluster.Claim) {
	if volume := c.Volumes[claim.Name]; volume != nil && !volume.Lost && volume.Policy == corev1.PersistentVolumeReclaimRetain {
		c.Released = append(c.Released, volume)
	}
	delete(c.Volumes, claim.Name)
	*claim = etcdcluster.Claim{Name: claim.Name, Ordinal: claim.Ordinal}
}

// expand expands the file system of a volume to the requested size, unless this has to wait until a pod mounts it again.
func (c *Cluster) expand(claim *etcdcluster.Claim, volume *Volume, pod *etcdcluster.Pod) bool {
	isMounted := pod != nil && pod.Node != "" && (claim.RemountSince.IsZero() || pod.CreationTime.Before(claim.RemountSince))
	if c.OfflineExpansion && volume.Size > 0 && isMounted {
		if !claim.RemountSince.IsZero() {
			return false
		}
		claim.RemountSince = c.now

		return true
	}
	volume.Size, claim.RemountSince = claim.Requested, time.Time{}

	return true
}

// refreshClaims derives the status of the claims from their volumes.
func (c *Cluster) refreshClaims() {
	for i := range c.Objects.Claims {
		claim := &c.Objects.Claims[i]
		claim.Lost, claim.Nodes = false, nil
		if at, isRefused := c.refusedAt[claim.UID]; isRefused && c.now.Sub(at) >= refusalTimeout {
			delete(c.refusedAt, claim.UID)
			claim.RefusedSize, claim.RefusedWhy = 0, ""
		}
		volume := c.Volumes[claim.Name]
		if volume == nil || !claim.Exists {
			continue
		}
		claim.Lost, claim.Bound, claim.Volume = volume.Lost, !volume.Lost, volume.Name
		if !c.NetworkVolumes {
			claim.Nodes = []string{volume.Node}
		}
		claim.Capacity, claim.Expandable = volume.Size, nil
		if claim.Bound && claim.Requested < new(helper.StorageCapacity(c.Etcd)).Value() {
			claim.Expandable = new(!c.FixedVolumes)
		}
	}
}

// refreshVolumes derives the PersistentVolumes. Those of volumes that are lost do not exist.
func (c *Cluster) refreshVolumes() {
	c.Objects.Volumes = nil
	add := func(volume *Volume) {
		if volume.Name == "" || volume.Lost {
			return
		}
		c.Objects.Volumes = append(c.Objects.Volumes, etcdcluster.PersistentVolume{
			Name: volume.Name, Exists: true, UID: volume.UID, ClaimUID: volume.ClaimUID, ReclaimPolicy: volume.Policy, Dynamic: !volume.Static, RetainedFor: volume.RetainedFor,
		})
	}
	for _, volume := range c.Volumes {
		add(volume)
	}
	for _, volume := range c.Released {
		add(volume)
	}
	for _, retained := range c.Objects.State.Retained {
		if c.Objects.Volume(retained.Name) == nil {
			c.Objects.Volumes = append(c.Objects.Volumes, etcdcluster.PersistentVolume{Name: retained.Name})
		}
	}
	slices.SortFunc(c.Objects.Volumes, func(a, b etcdcluster.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
}

// setPolicy sets the reclaim policy of a volume, and for which Etcd the operator retains it. The controller deletes a released volume with
// the policy Delete.
func (c *Cluster) setPolicy(meta plan.Meta, policy corev1.PersistentVolumeReclaimPolicy, retainedFor types.UID) error {
	volumes := slices.Clone(c.Released)
	for _, volume := range c.Volumes {
		volumes = append(volumes, volume)
	}
	index := slices.IndexFunc(volumes, func(volume *Volume) bool { return volume.Name == meta.Object && volume.UID == meta.UID && !volume.Lost })
	if index < 0 {
		return fmt.Errorf("volume %s: %w", meta.Object, ErrConflict)
	}
	volumes[index].Policy, volumes[index].RetainedFor = policy, retainedFor
	c.Released = slices.DeleteFunc(c.Released, func(volume *Volume) bool { return volume.Policy == corev1.PersistentVolumeReclaimDelete })

	return nil
}
