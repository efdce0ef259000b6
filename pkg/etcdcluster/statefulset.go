// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// RenderingAnnotation is the key, on the StatefulSet itself, of the checksum of everything that was rendered with it. The StatefulSet shows
// what gardener-resource-manager has applied.
const RenderingAnnotation = "etcd-druid.extensions.gardener.cloud/rendering"

// TemplateAnnotation is the key, on the StatefulSet, of the checksum of the rendered pod template. A StatefulSet has it if a surge replaces the only
// member, or has replaced it. Webhooks may change the template.
const TemplateAnnotation = "etcd-druid.extensions.gardener.cloud/template"

// ScaleUpAnnotation is the key of an annotation that earlier versions of etcd-druid set on the StatefulSet when they added members.
// Sidecars up to v0.40 delete the data of their member if the StatefulSet has it and the cluster does not respond.
const ScaleUpAnnotation = "gardener.cloud/scaled-to-multi-node"

// StatefulSet is the observed StatefulSet.
type StatefulSet struct {
	// Exists is false when there is none; all else is zero then.
	Exists bool
	// Name of the StatefulSet.
	Name string
	// UID of the StatefulSet.
	UID types.UID
	// OwnerUID is the UID of its controlling owner. Empty: none.
	OwnerUID types.UID
	// Foreign is true where its controlling owner is neither the Etcd nor a previous one of its name.
	Foreign bool
	// Deleting is true while it is being deleted.
	Deleting bool
	// AwaitsRelease is true while it is being deleted, and the operator has to release its pods. The garbage collector has orphaned those that it
	// knows.
	AwaitsRelease bool
	// HasReleaseFinalizer is true while the operator has to release its pods before it is deleted.
	HasReleaseFinalizer bool
	// Generation is the spec's; ObservedGeneration the one that the StatefulSet controller has seen.
	Generation, ObservedGeneration int64
	// SpecReplicas are the desired pods, Replicas those that exist, ReadyReplicas those that are ready.
	SpecReplicas, Replicas, ReadyReplicas int32
	// UpdateRevision is the revision of the newest pod template. Empty: not known yet.
	UpdateRevision string
	// FailedCreate is the message of the newest event FailedCreate, while a pod is missing. Empty: there is none, or it is old.
	FailedCreate string
	// Rendering is the checksum that it shows, and what cannot be changed in place.
	Rendering Rendering
	// Store is the fingerprint of the store settings in its pod template, see StoreFingerprint.
	Store string
	// StoreSecret is the name of the Secret with the credentials of the store in its pod template. Empty: none.
	StoreSecret string
	// LocalStore is the folder of the node that its pod template mounts as Local store. Empty: none.
	LocalStore string
	// TLS are the Secrets that its pod template mounts for TLS.
	TLS MountedTLS
	// ClientPort is the port of its pods for client requests. 0: unknown.
	ClientPort int32
	// PeerPort is the port of its pods for peer traffic. 0: unknown.
	PeerPort int32
	// HasPreStopHook is true if its pod template has a hook that delays the end of etcd: it is rendered for a multi-member cluster.
	HasPreStopHook bool
	// EtcdImage is the image of the etcd container in the template. Empty: there is no such container.
	EtcdImage string
	// Template is the checksum in its annotation TemplateAnnotation. Empty: it has none.
	Template string
	// HasScaleUpAnnotation is true if it has the annotation ScaleUpAnnotation, with any value.
	HasScaleUpAnnotation bool
}

// MountedTLS are the names of Secrets that pods mount for TLS. Each is empty where none is mounted.
type MountedTLS struct {
	// ClientCA, Server and Client are for connections of clients.
	ClientCA, Server, Client string
	// PeerCA and Peer are for connections between members.
	PeerCA, Peer string
	// BackupCA and BackupServer are for connections to the sidecar.
	BackupCA, BackupServer string
}

// Names are the names of all mounted Secrets, sorted, each once.
func (m MountedTLS) Names() []string {
	names := []string{m.ClientCA, m.Server, m.Client, m.PeerCA, m.Peer, m.BackupCA, m.BackupServer}
	slices.Sort(names)
	names = slices.Compact(names)
	if names[0] == "" {
		names = names[1:]
	}

	return names
}

// MountedSecrets are the names of all Secrets that pods mount for TLS, or will mount when they are recreated, sorted, without duplicates.
// Between a change of the template and the end of the rolling update both are in use.
func (o Observation) MountedSecrets() []string {
	names := o.StatefulSet.TLS.Names()
	for _, pod := range o.Pods {
		names = append(names, pod.TLS.Names()...)
	}
	slices.Sort(names)

	return slices.Compact(names)
}

// GenerationObserved is true when the StatefulSet controller has seen the newest spec, so that UpdateRevision and the
// counters speak about it.
func (s StatefulSet) GenerationObserved() bool {
	return s.Exists && s.ObservedGeneration >= s.Generation
}

// Rendering identifies what is rendered for an Etcd.
type Rendering struct {
	// Checksum over everything rendered, shown by the StatefulSet in RenderingAnnotation.
	Checksum string
	// Fixed are the fields that need a new StatefulSet to change.
	Fixed FixedFields
}

// FixedFields are the fields of a StatefulSet that cannot be changed in place. The API server refuses a change of the first
// three, and the resource manager silently keeps the live claim templates.
type FixedFields struct {
	// ServiceName is the headless Service.
	ServiceName string
	// PodManagementPolicy is Parallel or OrderedReady; empty counts as OrderedReady.
	PodManagementPolicy string
	// Selector are the labels that select pods.
	Selector map[string]string
	// ClaimTemplates of the StatefulSet, in their order.
	ClaimTemplates []ClaimTemplate
}

// ClaimTemplate is a volume claim template.
type ClaimTemplate struct {
	// Name of the template.
	Name string
	// StorageClass named in the template. Nil: the default of the cluster.
	StorageClass *string
	// Request is the requested size in bytes.
	Request int64
	// AccessModes of the volume.
	AccessModes []string
}

// RenderingFor reads the rendering from a StatefulSet, a live one or one that was only rendered.
func RenderingFor(statefulSet *appsv1.StatefulSet) Rendering {
	fixed := FixedFields{
		ServiceName:         statefulSet.Spec.ServiceName,
		PodManagementPolicy: string(statefulSet.Spec.PodManagementPolicy),
	}
	if fixed.PodManagementPolicy == "" {
		fixed.PodManagementPolicy = string(appsv1.OrderedReadyPodManagement)
	}
	if statefulSet.Spec.Selector != nil {
		fixed.Selector = statefulSet.Spec.Selector.MatchLabels
	}
	for _, claim := range statefulSet.Spec.VolumeClaimTemplates {
		fixed.ClaimTemplates = append(fixed.ClaimTemplates, claimTemplateFor(claim))
	}

	return Rendering{Checksum: statefulSet.Annotations[RenderingAnnotation], Fixed: fixed}
}

func claimTemplateFor(claim corev1.PersistentVolumeClaim) ClaimTemplate {
	template := ClaimTemplate{
		Name:         claim.Name,
		StorageClass: claim.Spec.StorageClassName,
		Request:      claim.Spec.Resources.Requests.Storage().Value(),
	}
	for _, mode := range claim.Spec.AccessModes {
		template.AccessModes = append(template.AccessModes, string(mode))
	}

	return template
}

// Differences names, as paths in the StatefulSet's spec, the fields in which two sets of fixed fields differ. Empty: they
// are the same.
func (f FixedFields) Differences(other FixedFields) []string {
	var paths []string
	if f.ServiceName != other.ServiceName {
		paths = append(paths, "spec.serviceName")
	}
	if f.PodManagementPolicy != other.PodManagementPolicy {
		paths = append(paths, "spec.podManagementPolicy")
	}
	if !maps.Equal(f.Selector, other.Selector) {
		paths = append(paths, "spec.selector")
	}
	if !slices.EqualFunc(f.ClaimTemplates, other.ClaimTemplates, ClaimTemplate.equal) {
		paths = append(paths, "spec.volumeClaimTemplates")
	}

	return paths
}

func (t ClaimTemplate) equal(other ClaimTemplate) bool {
	sameClass := (t.StorageClass == nil) == (other.StorageClass == nil) &&
		(t.StorageClass == nil || *t.StorageClass == *other.StorageClass)

	return t.Name == other.Name && sameClass && t.Request == other.Request && slices.Equal(t.AccessModes, other.AccessModes)
}

// AreAllPodsUpdated is true if the StatefulSet controller has observed the newest spec, and every pod that it wants exists.
// Each pod must have been created from the newest template.
func AreAllPodsUpdated(o Observation) bool {
	statefulSet := o.StatefulSet

	return statefulSet.GenerationObserved() && int(statefulSet.SpecReplicas) == len(o.Pods) && len(OutdatedPods(o)) == 0
}

// LastSize is the size of the cluster when it last ran: the persisted size or, of an adopted cluster, that of its StatefulSet. 0: it never
// ran, or it has hibernated since before it was adopted.
func LastSize(o Observation) int32 {
	if size := o.State.Size; size > 0 {
		return size
	}

	return o.StatefulSet.SpecReplicas
}

// SizeBefore returns the size to which an unfinished scale-up can be taken back: no learner has joined since all members of this size vote.
// 0: none is unfinished, a learner has joined, or that is not known.
func SizeBefore(etcd *druidv1alpha1.Etcd, o Observation) int32 {
	size, rendered := etcd.Spec.Replicas, RenderedReplicas(o)
	if rendered == 0 || rendered > size || o.State.Migration.AddsMember() || o.State.Restore != state.RestoreNone {
		return 0
	}
	voters := LastSize(o)
	if rendered < voters || rendered == size { // further members were started
		voters = 0
		for _, listed := range o.Etcd.MemberList {
			if listed.Learner {
				return 0
			}
			if !IsOfExisting(etcd, listed.Name) {
				voters++
			}
		}
	}
	if voters == 0 || voters >= size || slices.ContainsFunc(MembersFor(etcd, o)[voters:], Member.hasVoted) {
		return 0
	}

	return voters - 1 + voters%2
}

// RenderedReplicas is the number of pods that were rendered last. Of a cluster that is adopted it is what runs.
func RenderedReplicas(o Observation) int32 {
	switch {
	case o.State.Replicas != nil:
		return *o.State.Replicas
	case o.StatefulSet.Exists:
		return o.StatefulSet.SpecReplicas
	case len(o.Pods) > 0:
		return int32(o.Pods[len(o.Pods)-1].Ordinal) + 1 // #nosec G115 -- the ordinal of a member
	default:
		return 0
	}
}

// VolumeSize is the number of bytes that volumes are rendered with. 0: there are none.
func (r Rendering) VolumeSize() int64 {
	if len(r.Fixed.ClaimTemplates) == 0 {
		return 0
	}

	return r.Fixed.ClaimTemplates[0].Request
}
