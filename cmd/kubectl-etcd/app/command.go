// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package app is the command line of kubectl-etcd: one file a subcommand.
//
// What may not live here: decisions about clusters, which are etcdcluster's, and the layout of what is printed, which is
// report's.
package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/version"
)

// The exit codes.
const (
	// exitDone means success; of status, that the cluster is healthy.
	exitDone = 0
	// exitFailed means that it could not be done.
	exitFailed = 1
	// exitUsage means that the command line cannot be understood.
	exitUsage = 2
	// exitUnhealthy means that the cluster is not healthy, or that a task ended badly.
	exitUnhealthy = 3
)

// errUnhealthy is returned once everything was said about a cluster that is not healthy.
var errUnhealthy = errors.New("the cluster is not healthy")

// taskError is the end of a task that did not do what it was to do.
type taskError struct{ error }

// usageError is an error of who typed the command.
type usageError struct{ error }

// Run runs the command line and returns the exit code.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	raw := streams
	streams.Out, streams.ErrOut = &terminal{Writer: streams.Out}, &terminal{Writer: streams.ErrOut}
	command := newCommand(streams, raw)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	usage, task := usageError{}, taskError{}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errUnhealthy):
		return exitUnhealthy
	case errors.As(err, &task):
		_, _ = fmt.Fprintf(streams.ErrOut, "error: %v\n", err)

		return exitUnhealthy
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		_, _ = fmt.Fprintf(streams.ErrOut, "error: %v\nSee kubectl etcd --help.\n", err)

		return exitUsage
	default:
		_, _ = fmt.Fprintf(streams.ErrOut, "error: %v\n", err)

		return exitFailed
	}
}

// plugin is what all subcommands share.
type plugin struct {
	genericiooptions.IOStreams

	// raw are the streams without the escaping of Out and ErrOut, for programs that are started.
	raw   genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
}

func newCommand(streams, raw genericiooptions.IOStreams) *cobra.Command {
	p := &plugin{IOStreams: streams, raw: raw, flags: genericclioptions.NewConfigFlags(true)}
	command := &cobra.Command{
		Use:   "kubectl-etcd",
		Short: "Operate the etcd clusters of gardener-extension-etcd-druid",
		Long: "Operate the etcd clusters of gardener-extension-etcd-druid, in the current namespace.\n\n" +
			"NAME may be left out where the namespace has one Etcd. Nothing needs more rights than it says: what you may not see\n" +
			"is named as such.\n\n" +
			"Exit codes: 0 done (status: healthy), 1 failed, 2 wrong usage, 3 not healthy or the task ended badly.",
		Version:           version.Get().GitVersion,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl etcd"},
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	command.SetIn(streams.In)
	command.SetOut(streams.Out)
	command.SetErr(streams.ErrOut)
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	p.flags.AddFlags(command.PersistentFlags())
	command.AddCommand(
		p.statusCommand(), p.planCommand(), p.whyCommand(), p.adoptCommand(), p.logsCommand(), p.ctlCommand(),
		p.snapshotCommand(), p.compactCommand(), p.defragCommand(), p.restoreDrillCommand(), p.inspectCommand(), p.reconcileCommand(), p.suspendCommand(), p.resumeCommand(), p.protectCommand(), p.unprotectCommand(),
		p.hibernateCommand(), p.wakeCommand(), p.rotateCACommand(), p.disablePeerTLSCommand(), p.restoreCommand(), p.recoverCommand(), p.acceptRevisionCommand(), p.replaceVolumeCommand(), p.releaseStoreCommand(),
		p.skipFinalSnapshotCommand(), p.requireFinalSnapshotCommand(), p.reportCommand(),
	)

	return command
}

// atMostOneName is the rule for arguments of nearly every subcommand.
func atMostOneName(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("one name of an Etcd is expected, not %d: %s", len(args), strings.Join(args, " "))}
	}

	return nil
}

// completeNames completes the names of Etcds.
func (p *plugin) completeNames(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	session, err := p.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := session.names(command.Context()) // without the right to list there is nothing to complete

	return names, cobra.ShellCompDirectiveNoFileComp
}
