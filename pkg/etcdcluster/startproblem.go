// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
)

// StartProblem returns why the pod of the member with the ordinal is not created, is not scheduled, or does not start, with the remedy. It is one
// sentence, which all reports use. Empty: no problem is known.
func (o *Observation) StartProblem(ordinal int) string {
	pod, claim := o.PodFor(ordinal), o.ClaimFor(ordinal)
	switch {
	case pod == nil && o.StatefulSet.FailedCreate != "" && ordinal < int(o.StatefulSet.SpecReplicas):
		return CreationProblem("StatefulSet", o.StatefulSet.Name, o.StatefulSet.FailedCreate)
	case pod == nil:
		return ""
	case pod.Unschedulable != "" && claim != nil && claim.Exists && !claim.Bound && len(claim.Warnings) > 0:
		return fmt.Sprintf("pod %s is not scheduled, because claim %s has no volume: %s; correct spec.storageClass and spec.storageCapacity, or the provisioner of the StorageClass",
			pod.Name, claim.Name, strings.Join(claim.Warnings, "; "))
	default:
		return pod.StartProblem()
	}
}

// StartProblems returns the problems of all members in order of their ordinals, each once. It adds those of the Jobs that have not ended, and
// those that preflights foresee.
func (o *Observation) StartProblems() []string {
	var problems []string
	add := func(problem string) {
		if problem != "" && !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	for ordinal := range helper.MaxMembers {
		add(o.StartProblem(ordinal))
	}
	if job := o.RestoreVerification; !job.Failed {
		add(job.Message)
	}
	if job := o.RecoveryJob; !job.Failed {
		add(job.Message)
	}
	for _, job := range o.Inspections {
		if !job.Failed {
			add(job.Message)
		}
	}

	for _, preflight := range o.Preflights {
		add(preflight.Refusal)
	}

	return problems
}

// CreationProblem returns why a StatefulSet or a Job cannot create a pod, with the remedy. The message is that of the event FailedCreate.
func CreationProblem(kind, name, message string) string {
	for _, prefix := range []string{" failed error: ", "Error creating: "} {
		if _, refusal, found := strings.Cut(message, prefix); found {
			message = refusal
		}
	}

	return fmt.Sprintf("%s %s cannot create a pod: %s; correct the field, the quota, or the policy in this message", kind, name, strings.TrimSuffix(message, "."))
}

// StartProblem is Observation.StartProblem for what only the pod shows.
func (p Pod) StartProblem() string {
	if p.Unschedulable != "" {
		return fmt.Sprintf("pod %s is not scheduled: %s; let a node have room for it, or correct its resources and scheduling constraints", p.Name, strings.TrimSuffix(p.Unschedulable, "."))
	}
	if problem := p.ImagePullError(); problem != "" {
		return problem
	}
	for _, container := range p.Containers {
		if reason := container.waitingReason(); reason != "" {
			return "container " + container.Name + " of pod " + p.Name + " " + reason
		}
	}

	return ""
}

// StartingPod returns the part of a pod on which StartProblem depends.
func StartingPod(object *corev1.Pod) Pod {
	pod := Pod{Name: object.Name, Node: object.Spec.NodeName}
	for _, condition := range object.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			pod.Unschedulable = condition.Message
		}
	}
	for _, container := range object.Spec.InitContainers {
		pod.Containers = append(pod.Containers, containerFor(container, object.Status.InitContainerStatuses, true))
	}
	for _, container := range object.Spec.Containers {
		pod.Containers = append(pod.Containers, containerFor(container, object.Status.ContainerStatuses, false))
	}

	return pod
}

func containerFor(spec corev1.Container, statuses []corev1.ContainerStatus, init bool) Container {
	container := Container{Name: spec.Name, Init: init, Image: spec.Image}
	for _, status := range statuses {
		if status.Name != spec.Name {
			continue
		}
		container.Ready = status.Ready
		container.Restarts = status.RestartCount
		if last := status.LastTerminationState.Terminated; last != nil {
			container.LastTerminationReason = last.Reason
		}
		switch state := status.State; {
		case state.Running != nil:
			container.State, container.StartedAt = ContainerRunning, state.Running.StartedAt.Time
		case state.Waiting != nil:
			container.State, container.Reason, container.Message = ContainerWaiting, state.Waiting.Reason, state.Waiting.Message
		case state.Terminated != nil:
			container.State, container.Reason, container.Message = ContainerTerminated, state.Terminated.Reason, state.Terminated.Message
		}
	}

	return container
}
