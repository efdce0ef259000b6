// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package command parses the command line and calls package seed. No other package reads flags.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/seed"
)

// command is one of the tool's commands.
type command struct {
	name, args, help string
	// changes is true for a command that changes the cluster. It needs root, and no other such command may run at the same time.
	changes bool
	run     func(ctx context.Context, s *seed.Seed, args []string, out io.Writer) error
}

// Run executes the command and returns the exit code: 2 for an invalid command line, 1 for a failure.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cluster := layout.Seed
	if len(args) > 0 {
		if selected, found := layout.ParseCluster(args[0]); found {
			cluster, args = selected, args[1:]
		}
	}

	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		usage(stdout)
		return 0
	}

	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}

		err := execute(ctx, cluster, call{command: c, args: args[1:]}, stdout, stderr)

		switch {
		case err == nil:
			return 0
		case errors.Is(err, flag.ErrHelp):
			return 2
		case ctx.Err() != nil:
			_, _ = fmt.Fprintf(stderr, "seed %s: interrupted; the same command continues, and `%s down` removes the cluster\n", c.name, cluster.Name())
			return 1
		default:
			_, _ = fmt.Fprintf(stderr, "seed %s: %v\n", c.name, err)
			return 1
		}
	}

	_, _ = fmt.Fprintf(stderr, "unknown command %q\n\n", args[0])
	usage(stderr)

	return 2
}

// call is a command with its arguments.
type call struct {
	command
	args []string
}

func execute(ctx context.Context, cluster layout.Cluster, c call, stdout, stderr io.Writer) error {
	// Scripts read the paths on standard output, so that progress goes to standard error.
	progressOut := stdout
	if !c.changes {
		progressOut = stderr
	}

	s, err := seed.New(cluster, progress.New(progressOut))
	if err != nil {
		return err
	}

	if c.changes {
		if err := seed.CheckMachine(); err != nil {
			return err
		}

		unlock, err := s.Lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}

	return c.run(ctx, s, c.args, stdout)
}

func usage(out io.Writer) {
	_, _ = fmt.Fprint(out, "A Kubernetes cluster of three nodes on this machine, with the operator.\n\nCommands:\n")

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		_, _ = fmt.Fprintf(table, "  %s %s\t%s\n", c.name, c.args, c.help)
	}

	_ = table.Flush()

	_, _ = fmt.Fprint(out, "\nIMAGES are the flags --wrapper, --sidecar, --wrapper-next and --sidecar-next, each with an image archive or with a\nreference of an image on all nodes.\n")
	_, _ = fmt.Fprint(out, "\nThe prefix bare selects another cluster next to the seed, with one node and without Gardener and the operator,\nas a new user has it: `bare up`, `bare env`, `bare down`.\n")
	_, _ = fmt.Fprint(out, "\nThe prefix shoots selects a cluster that a real gardenlet makes a seed, with a garden and a Shoot: `shoots up`, `shoots env`,\n`shoots down`. The prefix garden selects the garden, for `garden env` and `garden logs`.\n")
	_, _ = fmt.Fprint(out, "\nThe prefix bench selects a cluster for measurements, in which KWOK simulates the nodes and pods: `bench up`,\n`bench env`, `bench down`.\n")
}
