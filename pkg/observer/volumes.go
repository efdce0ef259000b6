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

// readVolumes looks at the volumes of members that do not serve, past the caches: few members are ever in that state, and what
// is decided by it must not be decided by what was.
func (p *pass) readVolumes(ctx context.Context) {
	for i := range p.seen.Claims {
		claim := &p.seen.Claims[i]
		if !claim.Exists || claim.Volume == "" || p.seemsToServe(claim.Ordinal) {
			continue
		}
		if err := p.readVolume(ctx, claim); err != nil {
			p.failed(etcdcluster.SectionVolumes, err)
		}
	}
	slices.SortFunc(p.seen.Nodes, func(a, b etcdcluster.Node) int { return cmp.Compare(a.Name, b.Name) })
}

// seemsToServe is true when the member's pod is ready and stays, and the member did not stay silent while others answered: of a node
// that is gone nobody says any more that its pods are not ready, and members of pods that are on their way out are not asked.
func (p *pass) seemsToServe(ordinal int) bool {
	pod, answer := p.seen.PodFor(ordinal), p.seen.Etcd.Endpoint(ordinal)
	isSilent := answer != nil && !answer.Reachable && p.seen.Etcd.AnyReachable()

	return pod != nil && pod.Ready && !pod.Deleting && !isSilent
}

func (p *pass) readVolume(ctx context.Context, claim *etcdcluster.Claim) error {
	volume := &corev1.PersistentVolume{}
	err := p.APIReader.Get(ctx, client.ObjectKey{Name: claim.Volume}, volume)
	if apierrors.IsNotFound(err) {
		claim.Lost = true

		return nil
	}
	if err != nil {
		return fmt.Errorf("reading PersistentVolume %s: %w", claim.Volume, err)
	}
	claim.Nodes = nodesOf(volume)
	for _, name := range claim.Nodes {
		if err := p.readNode(ctx, name); err != nil {
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

// readNode looks a node up by its label, which is what volumes name, and then by its name.
func (p *pass) readNode(ctx context.Context, name string) error {
	if slices.ContainsFunc(p.seen.Nodes, func(node etcdcluster.Node) bool { return node.Name == name }) {
		return nil
	}
	list := &corev1.NodeList{}
	if err := p.APIReader.List(ctx, list, client.MatchingLabels{corev1.LabelHostname: name}); err != nil {
		return fmt.Errorf("listing nodes with hostname %s: %w", name, err)
	}
	if len(list.Items) == 0 {
		node := corev1.Node{}
		if err := p.APIReader.Get(ctx, client.ObjectKey{Name: name}, &node); err == nil {
			list.Items = append(list.Items, node)
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
	}
	seen := etcdcluster.Node{Name: name, Exists: len(list.Items) > 0, OutOfService: len(list.Items) > 0}
	for _, node := range list.Items {
		seen.OutOfService = seen.OutOfService && slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeOutOfService
		})
	}
	p.seen.Nodes = append(p.seen.Nodes, seen)

	return nil
}
