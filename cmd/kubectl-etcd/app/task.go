// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// taskPause is the interval in which the plugin reads a task.
const taskPause = time.Second

func (p *plugin) snapshotCommand() *cobra.Command {
	delta := false
	command := p.taskCommand("snapshot", "Take a full snapshot now, or a delta snapshot with --delta",
		"Take a full snapshot now, or a delta snapshot with --delta. The task waits until earlier tasks of the cluster have ended.",
		func() string {
			if delta {
				return druidv1alpha1.RunTaskDeltaSnapshot
			}

			return druidv1alpha1.RunTaskFullSnapshot
		})
	command.Flags().BoolVar(&delta, "delta", false, "take a delta snapshot")

	return command
}

func (p *plugin) compactCommand() *cobra.Command {
	return p.taskCommand("compact", "Compact the snapshots of a cluster now",
		"Compact the snapshots of a cluster now: a Job makes one full snapshot of the last and of all deltas since.",
		func() string { return druidv1alpha1.RunTaskCompaction })
}

func (p *plugin) defragCommand() *cobra.Command {
	return p.taskCommand("defrag", "Defragment the databases of all members now",
		"Defragment the databases of all members now, one after the other and the leader last, after a transfer of the leadership. Each\nmember is unavailable meanwhile; the command prints for how long.",
		func() string { return druidv1alpha1.RunTaskDefragmentation })
}

func (p *plugin) restoreDrillCommand() *cobra.Command {
	return p.taskCommand("restore-drill", "Prove now that the snapshots of a cluster can be restored",
		"Prove now that the snapshots in the backup store contain what the cluster contains, and that the sidecar restores them. A Job copies\nthe newest snapshots and restores them in a temporary directory. Nothing of the cluster changes.",
		func() string { return druidv1alpha1.RunTaskRestoreDrill })
}

// taskCommand is a subcommand that has the operator run a task.
func (p *plugin) taskCommand(use, short, long string, kind func() string) *cobra.Command {
	follow := true
	command := &cobra.Command{
		Use: use + " [NAME]", Short: short, Long: long, Args: atMostOneName, ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			session, err := p.connect()
			if err != nil {
				return err
			}
			etcd, _, err := session.etcd(command.Context(), args)
			if err != nil {
				return err
			}

			return p.runTask(command.Context(), session, etcd, kind(), follow)
		},
	}
	command.Flags().BoolVar(&follow, "wait", true, "wait for the end, and show how far it is")

	return command
}

// runTask requests a task with the annotation, which works with the CustomResourceDefinitions of every seed, and waits
// for its end.
func (p *plugin) runTask(ctx context.Context, session *session, etcd *druidv1alpha1.Etcd, kind string, follow bool) error {
	before, err := session.tasks(ctx, etcd.Namespace)
	if err != nil {
		return err
	}
	if err := session.mark(ctx, etcd, mark{key: druidv1alpha1.RunTaskAnnotation, value: kind}); err != nil {
		return err
	}
	if !follow {
		_, err := fmt.Fprintf(p.Out, "Requested. Follow it with kubectl get etcdopstasks -n %s.\n", etcd.Namespace)

		return err
	}
	_, _ = fmt.Fprintf(p.ErrOut, "Asked the operator; waiting for it to begin\n")
	var task *druidv1alpha1.EtcdOpsTask
	said := ""
	err = wait.PollUntilContextCancel(ctx, taskPause, true, func(ctx context.Context) (bool, error) {
		tasks, err := session.tasks(ctx, etcd.Namespace)
		if err != nil {
			return false, err
		}
		if task = report.TaskFor(etcd.Name, kind, tasks, before); task == nil {
			return false, nil
		}
		if news := taskNews(task); news != said {
			said = news
			_, _ = fmt.Fprintf(p.ErrOut, "%s  %s\n", session.clock.Now().UTC().Format(time.TimeOnly), news) // progress; the end is said on Out
		}

		return helper.IsTaskFinished(task), nil
	})
	if err != nil {
		return err
	}

	return p.taskEnd(task)
}

// tasks are all tasks of a namespace.
func (s *session) tasks(ctx context.Context, namespace string) ([]druidv1alpha1.EtcdOpsTask, error) {
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := s.List(ctx, tasks, client.InNamespace(namespace)); err != nil {
		return nil, explain(err)
	}

	return tasks.Items, nil
}

func taskNews(task *druidv1alpha1.EtcdOpsTask) string {
	news := "EtcdOpsTask " + task.Name
	if task.Status.State != nil {
		news += ": " + string(*task.Status.State)
	}
	if operation := task.Status.LastOperation; operation != nil && operation.Description != "" {
		news += ", " + operation.Description
	}

	return news
}

// taskEnd says what came of a task.
func (p *plugin) taskEnd(task *druidv1alpha1.EtcdOpsTask) error {
	if state := *task.Status.State; state != druidv1alpha1.TaskStateSucceeded {
		message := "the task has no error"
		if lastErrors := task.Status.LastErrors; len(lastErrors) > 0 {
			message = lastErrors[len(lastErrors)-1].Description
		}

		return taskError{fmt.Errorf("EtcdOpsTask %s is %s: %s", task.Name, state, message)}
	}

	return report.TaskEnd(p.Out, task)
}
