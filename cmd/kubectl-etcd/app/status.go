// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

func (p *plugin) statusCommand() *cobra.Command {
	output := ""
	command := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show on one screen how a cluster is, what the operator does with it and why",
		Long: "Show on one screen how a cluster is, what the operator does with it and why.\n\n" +
			"Versions, revisions and sizes are asked from the members, through the API server, with the client certificate of the\n" +
			"cluster: that takes the rights to read its Secrets and to forward ports. Without them the rest is shown.",
		Example:           "  kubectl etcd status\n  kubectl etcd status etcd-main -n shoot--foo--bar -o wide",
		Args:              atMostOneName,
		ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			if !slices.Contains(outputs, output) {
				return usageError{fmt.Errorf("--output is %q, and has to be one of json, yaml, wide", output)}
			}
			session, err := p.connect()
			if err != nil {
				return err
			}
			status, err := session.status(command.Context(), args)
			if err != nil {
				return err
			}
			if err := p.print(status, output); err != nil {
				return err
			}
			if !status.Healthy {
				return errUnhealthy
			}

			return nil
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "json, yaml, or wide for nodes, ids and all messages")

	return command
}

var outputs = []string{"", "wide", "json", "yaml"}

// status observes a cluster and computes its status.
func (s *session) status(ctx context.Context, args []string) (report.Status, error) {
	stored, canonical, err := s.etcd(ctx, args)
	if err != nil {
		return report.Status{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	observation := s.observer(ctx).Observe(ctx, canonical, observer.Request{QueryEtcd: !helper.IsHibernated(canonical)})

	return report.StatusFor(report.Facts{Etcd: stored, Canonical: canonical, Observation: observation, Now: s.clock.Now()}), nil
}

func (p *plugin) print(status report.Status, output string) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(p.Out)
		encoder.SetIndent("", "  ")

		return encoder.Encode(status)
	case "yaml":
		text, err := yaml.Marshal(status)
		if err != nil {
			return err
		}
		_, err = p.Out.Write(text)

		return err
	default:
		return status.Text(p.Out, output == "wide")
	}
}

// hasKind is true if the API server serves the kind. It is false if discovery is not permitted.
func (s *session) hasKind(kind schema.GroupVersionKind) bool {
	_, err := s.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)

	return err == nil
}
