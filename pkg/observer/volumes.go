// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// readVolumes reads the volumes of members that are not healthy, and of all members if they have different data. It reads from the API server: few members
// are in this state, and the planner must not decide by an outdated volume.
func (r *reader) readVolumes(ctx context.Context) {
	for i := range r.observation.Claims {
		claim := &r.observation.Claims[i]
		if !claim.Exists || claim.Volume == "" || r.observation.State.Inconsistency == nil && r.seemsHealthy(claim.Ordinal) {
			continue
		}
		if err := r.readVolume(ctx, claim); err != nil {
			r.failed(etcdcluster.SectionVolumes, err)
		}
	}
	for _, retained := range r.observation.State.Retained {
		if r.observation.Volume(retained.Name) == nil {
			if _, err := r.getVolume(ctx, retained.Name); err != nil {
				r.failed(etcdcluster.SectionVolumes, err)
			}
		}
	}
	slices.SortFunc(r.observation.Volumes, func(a, b etcdcluster.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.observation.Nodes, func(a, b etcdcluster.Node) int { return cmp.Compare(a.Name, b.Name) })
}

// seemsHealthy is true if the member's pod is ready and not terminating, and the member is not the unreachable one among reachable members.
// The kubelet of a lost node reports no more that its pods are not ready, and members of terminating pods are not queried.
func (r *reader) seemsHealthy(ordinal int) bool {
	pod, status := r.observation.PodFor(ordinal), r.observation.Etcd.Endpoint(ordinal)
	isUnreachable := status != nil && !status.Reachable && r.observation.Etcd.AnyReachable()

	return pod != nil && pod.Ready && !pod.Deleting && !isUnreachable
}

func (r *reader) readVolume(ctx context.Context, claim *etcdcluster.Claim) error {
	volume, err := r.getVolume(ctx, claim.Volume)
	if volume == nil {
		claim.Lost = err == nil

		return err
	}
	claim.Nodes = nodesOf(volume)
	for _, name := range claim.Nodes {
		if err := r.readNode(ctx, name); err != nil {
			return err
		}
	}

	return nil
}

// getVolume reads a volume, and adds it to the observation. Nil: it does not exist, or the error says why it cannot be read.
func (r *reader) getVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	volume := &corev1.PersistentVolume{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, volume)
	if apierrors.IsNotFound(err) {
		r.observation.Volumes = append(r.observation.Volumes, etcdcluster.PersistentVolume{Name: name})

		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading PersistentVolume %s: %w", name, err)
	}
	observed := etcdcluster.PersistentVolume{
		Name: name, Exists: true, UID: volume.UID, ReclaimPolicy: volume.Spec.PersistentVolumeReclaimPolicy,
		Dynamic: isDynamic(volume), RetainedFor: types.UID(volume.Labels[druidv1alpha1.VolumeLabelUID]),
	}
	if claim := volume.Spec.ClaimRef; claim != nil {
		observed.ClaimUID = claim.UID
	}
	r.observation.Volumes = append(r.observation.Volumes, observed)

	return volume, nil
}

const (
	// annotationProvisionedBy is the key, on a PersistentVolume, of the provisioner that has created it.
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// localProvisioner is the start of the name of sig-storage-local-static-provisioner. It creates one volume for each existing disk.
	localProvisioner = "local-volume-provisioner-"
)

// isDynamic is true if a provisioner creates another volume for the next claim.
func isDynamic(volume *corev1.PersistentVolume) bool {
	provisioner := volume.Annotations[annotationProvisionedBy]

	return provisioner != "" && !strings.HasPrefix(provisioner, localProvisioner)
}

// nodesOf are the only nodes on which a volume can be used, by the value of their label kubernetes.io/hostname or by their
// name. Nil: any, or the volume is bound to something else, such as a zone.
func nodesOf(volume *corev1.PersistentVolume) []string {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil
	}
	var names []string
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		named := nodesOfTerm(term)
		if len(named) == 0 {
			return nil // one of the alternatives names no node
		}
		names = append(names, named...)
	}
	slices.Sort(names)

	return slices.Compact(names)
}

func nodesOfTerm(term corev1.NodeSelectorTerm) []string {
	for _, requirement := range slices.Concat(term.MatchExpressions, term.MatchFields) {
		isName := requirement.Key == corev1.LabelHostname || requirement.Key == "metadata.name"
		if isName && requirement.Operator == corev1.NodeSelectorOpIn {
			return requirement.Values
		}
	}

	return nil
}

// readNode reads a node by its label kubernetes.io/hostname, which volumes name, or else by its name.
func (r *reader) readNode(ctx context.Context, name string) error {
	if slices.ContainsFunc(r.observation.Nodes, func(node etcdcluster.Node) bool { return node.Name == name }) {
		return nil
	}
	list := &corev1.NodeList{}
	if err := r.APIReader.List(ctx, list, client.MatchingLabels{corev1.LabelHostname: name}); err != nil {
		return fmt.Errorf("listing nodes with hostname %s: %w", name, err)
	}
	if len(list.Items) == 0 {
		node := corev1.Node{}
		if err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, &node); err == nil {
			list.Items = append(list.Items, node)
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
	}
	observed := etcdcluster.Node{Name: name, Exists: len(list.Items) > 0, OutOfService: len(list.Items) > 0}
	for _, node := range list.Items {
		observed.OutOfService = observed.OutOfService && slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeOutOfService
		})
	}
	r.observation.Nodes = append(r.observation.Nodes, observed)

	return nil
}
