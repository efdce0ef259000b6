// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Manifest stands for the rendered manifests in the ManagedResource.
type Manifest struct {
	// Rendering identifies the manifests. The StatefulSet shows it when they are applied.
	Rendering etcdcluster.Rendering
	// Revision identifies the pod template. A pod with another revision is outdated.
	Revision string
	// Image is the image of the container etcd.
	Image string
	// EtcdVersion is the minor version of etcd. Empty: it is not known.
	EtcdVersion string
	// Replicas is the number of pods of the StatefulSet.
	Replicas int32
	// ClusterSize is the number of members with which the sidecars are configured.
	ClusterSize int32
	Advertised
	// ServiceMember is the ordinal of the only member that the client Service selects in a surge. Nil: it selects all.
	ServiceMember *int32
	// ExcludesPods is true if the client Service does not select pods that are excluded.
	ExcludesPods bool
	// HasPreStopHook is true if the pod template is that of a multi-member cluster.
	HasPreStopHook bool
	// TLS are the Secrets that pods mount for TLS.
	TLS etcdcluster.MountedTLS
	// CertificatesChecksum is the checksum of the certificates of the user in the annotations of pods. Empty: none.
	CertificatesChecksum string
	// PeerPort is the port between members.
	PeerPort int32
	// Store is the fingerprint of the backup store. Empty: there is no store.
	Store string
}

// Advertised says which members have advertised URLs in the configuration.
type Advertised struct {
	// Remaining is the number of members that stay while others are removed. 0: none is removed.
	Remaining int32
	// Withdrawn is the ordinal of the member without URLs in a surge, plus one. 0: there is none.
	Withdrawn int32
}

// AdvertisedIn returns which members have advertised URLs in the rendering of a plan.
func AdvertisedIn(p plan.Plan) Advertised {
	advertised := Advertised{Remaining: p.Remaining()}
	if withdrawn := p.WithdrawnMember(); withdrawn != nil {
		advertised.Withdrawn = *withdrawn + 1
	}

	return advertised
}

// includes is true for a member with advertised URLs.
func (a Advertised) includes(ordinal int) bool {
	return (a.Remaining == 0 || ordinal < int(a.Remaining)) && ordinal+1 != int(a.Withdrawn)
}

// Selects is true for a pod that the client Service selects as soon as the pod is ready.
func (m Manifest) Selects(pod etcdcluster.Pod) bool {
	switch {
	case m.Remaining > 0 && pod.SelectedFor != strconv.Itoa(int(m.Remaining)):
		return false
	case m.ServiceMember != nil && int(*m.ServiceMember) != pod.Ordinal:
		return false
	default:
		return !m.ExcludesPods || !pod.Excluded
	}
}

func (m Manifest) hasPeerTLS() bool { return m.TLS.Peer != "" }

func (m Manifest) isSame(other Manifest) bool {
	return m.Rendering.Checksum == other.Rendering.Checksum && len(m.Rendering.Fixed.Differences(other.Rendering.Fixed)) == 0
}

// Written returns the manifests in the ManagedResource. Nil: none were written.
func (c *Cluster) Written() *Manifest { return c.written }

// Applied returns the manifests that gardener-resource-manager applied last. Nil: none were applied.
func (c *Cluster) Applied() *Manifest { return c.applied }

// appliedSize returns the cluster size in the applied manifests. 0: none were applied.
func (c *Cluster) appliedSize() int32 {
	if c.applied == nil {
		return 0
	}

	return c.applied.ClusterSize
}

// Apply writes the manifests and the durable record of the operator to the ManagedResource, which is created if it does not exist. True: the
// manifests differ from those that were written last, and gardener-resource-manager will apply them.
func (c *Cluster) Apply(manifest Manifest, record state.State) bool {
	c.Objects.State = record
	if c.written != nil && c.written.isSame(manifest) {
		return false
	}
	c.written = &manifest
	managedResource := &c.Objects.ManagedResource
	if !managedResource.Exists {
		managedResource.Exists, managedResource.UID = true, c.uid("mr")
	}
	managedResource.GenerationObserved = false

	return true
}

// resourceManager applies the ManagedResource. It keeps the volume claim templates of an existing StatefulSet.
func (c *Cluster) resourceManager() bool {
	managedResource, statefulSet := &c.Objects.ManagedResource, &c.Objects.StatefulSet
	if c.written == nil || managedResource.GenerationObserved && !managedResource.ReconcileRequested {
		return false
	}
	managedResource.GenerationObserved, managedResource.ReconcileRequested, managedResource.AppliesStatefulSet = true, false, true
	managedResource.Applied = etcdcluster.ConditionFact{Status: "True"}
	if statefulSet.Deleting {
		return true
	}
	c.applied = c.written
	if !statefulSet.Exists {
		*statefulSet = etcdcluster.StatefulSet{
			Exists: true, Name: helper.StatefulSetName(c.Etcd), UID: c.uid("sts"), OwnerUID: c.Etcd.UID, Rendering: c.applied.Rendering,
		}
	}
	claimTemplates := statefulSet.Rendering.Fixed.ClaimTemplates
	statefulSet.Rendering = c.applied.Rendering
	statefulSet.Rendering.Fixed.ClaimTemplates = claimTemplates
	statefulSet.SpecReplicas = c.applied.Replicas
	statefulSet.TLS, statefulSet.PeerPort, statefulSet.HasPreStopHook = c.applied.TLS, c.applied.PeerPort, c.applied.HasPreStopHook
	statefulSet.Generation++

	return true
}
