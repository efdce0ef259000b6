// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

func (p *plugin) adoptCommand() *cobra.Command {
	dryRun := false
	command := &cobra.Command{
		Use:   "adopt [NAME] --dry-run",
		Short: "Show which pods would restart, and why, once this operator takes a cluster over",
		Long: "Show which pods would restart, and why, once this operator takes over a cluster that etcd-druid made. Nothing is changed: the\n" +
			"rendering of this version is tried on the API server without being written, which takes the right to create\n" +
			"StatefulSets. Clusters are taken over by installing the operator: docs/operations says how.",
		Args: atMostOneName, ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			if !dryRun {
				return usageError{errors.New("clusters are taken over by the operator, and not by this command; --dry-run shows what that would do")}
			}
			session, err := p.connect()
			if err != nil {
				return err
			}
			stored, etcd, err := session.etcd(command.Context(), args)
			if err != nil {
				return err
			}
			differences, lines, err := session.adoption(command.Context(), stored, etcd)
			if err != nil {
				return err
			}
			if err := report.Differences(p.Out, differences); err != nil {
				return err
			}

			return report.Plan(p.Out, etcd.Name, lines)
		},
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "required: nothing else is done by this command")

	return command
}

// adoption returns the differences between the running pods and those of this operator, and what the operator would do.
func (s *session) adoption(ctx context.Context, stored, etcd *druidv1alpha1.Etcd) ([]string, []simulator.Line, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	observation := s.observe(ctx, etcd)
	switch {
	case observation.ManagedResource.Exists:
		return nil, nil, fmt.Errorf("%s is this operator's already; kubectl etcd plan %s shows what it would do", etcd.Name, etcd.Name)
	case !observation.StatefulSet.Exists:
		return nil, nil, fmt.Errorf("%s has no StatefulSet to take over", etcd.Name)
	}
	config, err := configFor(observation)
	if err != nil {
		return nil, nil, err
	}
	in := simulator.Input{Stored: stored, Wanted: etcd, Observation: observation, Config: config, Now: s.clock.Now()}
	rendered, err := simulator.StatefulSetFor(in)
	if err != nil {
		return nil, nil, err
	}
	differences, err := s.differences(ctx, rendered)
	if err != nil {
		return nil, nil, err
	}
	in.IsEqual = len(differences) == 0
	lines, err := simulator.Plan(in)

	return differences, lines, err
}

// differences compares the rendered pod template with that of the current StatefulSet after a dry run with the API
// server. The dry run uses another name, because the protection rejects changes to the current StatefulSet, dry runs
// included. The API server generates the name and keeps it short enough.
func (s *session) differences(ctx context.Context, rendered *appsv1.StatefulSet) ([]string, error) {
	live := &appsv1.StatefulSet{}
	if err := s.Get(ctx, client.ObjectKeyFromObject(rendered), live); err != nil {
		return nil, explain(err)
	}
	tried := &appsv1.StatefulSet{Spec: *live.Spec.DeepCopy()}
	tried.Namespace, tried.GenerateName = live.Namespace, live.Name+"-"
	tried.Labels, tried.Annotations = live.Labels, live.Annotations // webhooks go by them
	tried.Spec.Template = rendered.Spec.Template
	if err := s.Create(ctx, tried, client.DryRunAll); err != nil {
		return nil, fmt.Errorf("trying the new pods without writing them: %w", explain(err))
	}

	return differencesOf(live.Spec.Template, tried.Spec.Template), nil
}

// differencesOf names the parts in which pods of two templates differ.
func differencesOf(before, after corev1.PodTemplateSpec) []string {
	var differences []string
	differ := func(what string, before, after any) {
		if !apiequality.Semantic.DeepEqual(before, after) {
			differences = append(differences, what)
		}
	}
	differ("labels", before.Labels, after.Labels)
	differ("annotations", before.Annotations, after.Annotations)
	for _, container := range slices.Concat(after.Spec.InitContainers, after.Spec.Containers) {
		former := containerOf(before, container.Name)
		if former == nil {
			differences = append(differences, "container "+container.Name+" is new")

			continue
		}
		of := func(what string) string { return what + " of container " + container.Name }
		differ(fmt.Sprintf("%s: %s, now %s", of("image"), container.Image, former.Image), former.Image, container.Image)
		differ(of("arguments"), append(former.Command, former.Args...), append(container.Command, container.Args...))
		differ(of("environment"), former.Env, container.Env)
		differ(of("resources"), former.Resources, container.Resources)
		differ(of("mounts"), former.VolumeMounts, container.VolumeMounts)
		differ(of("probes"), []*corev1.Probe{former.ReadinessProbe, former.LivenessProbe}, []*corev1.Probe{container.ReadinessProbe, container.LivenessProbe})
		differ(of("security settings"), former.SecurityContext, container.SecurityContext)
	}
	differ("volumes", before.Spec.Volumes, after.Spec.Volumes)
	differ("scheduling", scheduling(before.Spec), scheduling(after.Spec))
	differ("security settings", before.Spec.SecurityContext, after.Spec.SecurityContext)
	if len(differences) == 0 {
		differ("other settings", before, after)
	}

	return differences
}

func scheduling(spec corev1.PodSpec) []any {
	return []any{spec.Affinity, spec.TopologySpreadConstraints, spec.Tolerations, spec.NodeSelector, spec.PriorityClassName}
}

func containerOf(template corev1.PodTemplateSpec, name string) *corev1.Container {
	for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}

	return nil
}
