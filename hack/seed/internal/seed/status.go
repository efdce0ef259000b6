// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/network"
)

// Status prints the processes, the nodes and the paths of the cluster.
func (s *Seed) Status(ctx context.Context, out io.Writer) error {
	names := s.processes.Names()
	if len(names) == 0 {
		_, err := fmt.Fprintf(out, "The %s cluster is down. Start it with %s.\n", s.Layout.Name(), s.start())
		return err
	}

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "PROCESS\tSTATE\tPID\tSINCE")

	for _, name := range names {
		record, alive := s.processes.Find(name)

		state := "running"
		if !alive {
			state = "DEAD (up starts it again)"
		}

		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", name, state, record.PID, record.Started.Local().Format(time.DateTime))
	}

	_, _ = fmt.Fprintln(table, "\nNODE\tREADY\tNETWORK\tPODS")
	s.printNodes(ctx, table)

	_, _ = fmt.Fprintf(table, "\nkubeconfig\t%s\naudit log\t%s\nlogs\t%s\nvolumes\t%s\nlocal store\t%s\n",
		s.Layout.Kubeconfig(), s.Layout.AuditLog(), s.Layout.Logs(), s.Layout.Volumes(), layout.LocalStore)

	return table.Flush()
}

// start returns the command that starts the cluster.
func (s *Seed) start() string {
	if s.Layout.Cluster == layout.Seed {
		return "`make up`"
	}

	return "`go run -C hack/seed . " + s.Layout.Name() + " up`"
}

func (s *Seed) printNodes(ctx context.Context, out io.Writer) {
	ready := map[string]string{}
	pods := map[string]int{}

	// The API server may be down. The status then contains the rest.
	if client, err := s.api(); err == nil {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()

		var found list
		if client.get(ctx, "/api/v1/nodes", &found) == nil {
			for _, item := range found.Items {
				ready[item.Metadata.Name] = strings.ToLower(item.ready().Status)
			}
		}

		found = list{}
		if client.get(ctx, "/api/v1/pods", &found) == nil {
			for _, pod := range found.Items {
				pods[pod.Spec.NodeName]++
			}
		}
	}

	for _, n := range s.existingNodes() {
		connection := "stopped (start-node " + n.Name() + ")"

		switch {
		case network.IsConnected(n):
			connection = "connected"
		case network.Exists(n):
			connection = "partitioned (heal " + n.Name() + ")"
		}

		state := ready[n.Name()]
		if state == "" {
			state = "unknown"
		}

		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%d\n", n.Name(), state, connection, pods[n.Name()])
	}
}
