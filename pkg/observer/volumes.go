// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// readVolumes reads the volumes of members that are not healthy. It reads from the API server: few members are in this state, and the planner
// must not decide by an outdated volume.
func (r *reader) readVolumes(ctx context.Context) {
	for i := range r.observation.Claims {
		claim := &r.observation.Claims[i]
		if !claim.Exists || claim.Volume == "" || r.seemsHealthy(claim.Ordinal) {
			continue
		}
		if err := r.readVolume(ctx, claim); err != nil {
			r.failed(etcdcluster.SectionVolumes, err)
		}
	}
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
	volume := &corev1.PersistentVolume{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Name: claim.Volume}, volume)
	if apierrors.IsNotFound(err) {
		claim.Lost = true

		return nil
	}
	if err != nil {
		return fmt.Errorf("reading PersistentVolume %s: %w", claim.Volume, err)
	}
	claim.Nodes = nodesOf(volume)
	for _, name := range claim.Nodes {
		if err := r.readNode(ctx, name); err != nil {
			return err
		}
	}

	return nil
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
