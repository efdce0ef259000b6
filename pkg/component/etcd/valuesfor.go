// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// ValuesFor maps the input to Values. The Etcd must be valid. It fails only if an annotation of the client Service, which the
// operator extends, cannot be parsed. The error is for the user and names the field.
func ValuesFor(in Input) (Values, error) {
	etcd := in.Etcd.DeepCopy()
	clientService, err := clientServiceValuesFor(etcd, in.Defaults)
	if err != nil {
		return Values{}, err
	}

	values := Values{
		Name:             etcd.Name,
		Namespace:        etcd.Namespace,
		Owner:            helper.OwnerReference(etcd),
		Labels:           helper.DefaultLabels(etcd),
		Names:            namesFor(etcd),
		Components:       componentsFor(etcd),
		Members:          membersFor(etcd, in.ClusterSize),
		Remaining:        in.Remaining,
		Withdrawn:        in.Withdrawn,
		ServiceMember:    in.ServiceMember,
		ExcludesPods:     in.ExcludesPods,
		PodMembers:       membersFor(etcd, cmp.Or(in.PodSize, in.ClusterSize)),
		RecordsTemplate:  in.RecordsTemplate,
		MembersByAddress: len(etcd.Spec.ExternallyManagedMemberAddresses) > 0,
		MemberLeaseNames: helper.MemberLeaseNames(etcd, largest(etcd, in)),
		Bootstrap:        bootstrapFor(in.Existing),
		IPFamilies:       ipFamiliesFor(in.Defaults),
		Ports:            portsFor(etcd),
		ClientTLS:        tlsFor(helper.ClientTLS(etcd), in.CADataKeys),
		PeerTLS:          peerTLSFor(helper.PeerTLS(etcd), in.CADataKeys),
		BackupTLS:        tlsFor(helper.BackupTLS(etcd), in.CADataKeys),
		Store:            in.Store,
		Etcd:             serverValuesFor(etcd, in),
		Sidecar:          sidecarValuesFor(etcd, in.Defaults.ImagesOf(in.EtcdVersion)),
		ClientService:    clientService,
		Pod:              podValuesFor(etcd, in),
		Claim:            claimValuesFor(etcd),
		NetworkPolicies:  in.Defaults.NetworkPolicies,
	}
	if values.Components.Network {
		values.Replicas = in.Replicas
	}

	return values, nil
}

func namesFor(etcd *druidv1alpha1.Etcd) Names {
	return Names{
		ClientService:       helper.ClientServiceName(etcd),
		PeerService:         helper.PeerServiceName(etcd),
		MemberNetworkPolicy: helper.MemberNetworkPolicyName(etcd),
		JobNetworkPolicy:    helper.JobNetworkPolicyName(etcd),
		ConfigMap:           helper.ConfigMapName(etcd),
		Role:                helper.RoleName(etcd),
		FullSnapshotLease:   helper.FullSnapshotLeaseName(etcd),
		DeltaSnapshotLease:  helper.DeltaSnapshotLeaseName(etcd),
		LocalHost:           helper.LocalHostName(etcd),
	}
}

// componentsFor keeps Identity for externally managed members. Their sidecars use a kubeconfig that their manager provides,
// and need the leases and the permission to patch them.
func componentsFor(etcd *druidv1alpha1.Etcd) Components {
	return Components{
		Identity: !metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.DisableEtcdRuntimeComponentCreationAnnotation),
		Network:  helper.ManagesPods(etcd),
	}
}

// largest is the largest number of members in the spec or the plan. During a scale-up each Lease must exist before its member. When the pods of
// removed members stop, their Leases are deleted.
func largest(etcd *druidv1alpha1.Etcd, in Input) int32 {
	if in.Remaining > 0 && in.Replicas <= in.Remaining {
		return in.Remaining
	}
	if in.Withdrawn != nil && in.Replicas <= *in.Withdrawn {
		return max(in.Replicas, etcd.Spec.Replicas)
	}

	return max(etcd.Spec.Replicas, in.Replicas, in.ClusterSize, int32(len(etcd.Spec.ExternallyManagedMemberAddresses))) // #nosec G115 -- A handful of addresses.
}

func ipFamiliesFor(defaults state.Defaults) []corev1.IPFamily {
	if len(defaults.IPFamilies) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}

	return slices.Clone(defaults.IPFamilies)
}

func portsFor(etcd *druidv1alpha1.Etcd) Ports {
	return Ports{
		Client:  helper.ClientPort(etcd),
		Peer:    helper.PeerPort(etcd),
		Backup:  helper.BackupPort(etcd),
		Wrapper: helper.WrapperPort(etcd),
	}
}

func podValuesFor(etcd *druidv1alpha1.Etcd, in Input) PodValues {
	constraints := etcd.Spec.SchedulingConstraints
	var annotations map[string]string
	if in.CertificatesChecksum != "" {
		annotations = map[string]string{druidv1alpha1.PodAnnotationCertificates: in.CertificatesChecksum}
	}

	return PodValues{
		Labels:                    etcd.Spec.Labels,
		Annotations:               merge(etcd.Spec.Annotations, annotations),
		InitImage:                 in.Defaults.ImagesOf(in.EtcdVersion).Init,
		ImagePullPolicy:           helper.ImagePullPolicy(etcd),
		PriorityClassName:         ptr.Deref(etcd.Spec.PriorityClassName, ""),
		Affinity:                  constraints.Affinity,
		TopologySpreadConstraints: constraints.TopologySpreadConstraints,
		Tolerations:               constraints.Tolerations,
		RunAsRoot:                 ptr.Deref(etcd.Spec.RunAsRoot, false),
		AllowUnhealthyEviction:    metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.AllowUnhealthyPodEvictionAnnotation),
	}
}

func claimValuesFor(etcd *druidv1alpha1.Etcd) ClaimValues {
	return ClaimValues{
		Name:             helper.VolumeClaimTemplateName(etcd),
		Capacity:         helper.StorageCapacity(etcd),
		StorageClassName: etcd.Spec.StorageClass,
	}
}

// resourcesOr returns the resources, or what a container requests where there are none.
func resourcesOr(resources *corev1.ResourceRequirements) corev1.ResourceRequirements {
	if resources != nil {
		return *resources
	}

	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("50m"),
		corev1.ResourceMemory: resource.MustParse("128Mi"),
	}}
}
