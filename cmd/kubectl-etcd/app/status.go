// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

// watchPeriod is the time between two screens of status --watch.
const watchPeriod = 2 * time.Second

// statusOptions are the flags of status.
type statusOptions struct {
	output, selector string
	all, watch       bool
}

// isList is true if the command lists Etcds instead of showing one.
func (o statusOptions) isList() bool { return o.all || o.selector != "" }

func (o statusOptions) validate(args []string) error {
	switch {
	case !slices.Contains(outputs, o.output):
		return usageError{fmt.Errorf("--output is %q, and has to be one of json, yaml, wide", o.output)}
	case o.isList() && len(args) > 0:
		return usageError{errors.New("-A and -l list Etcds: omit them, or the name")}
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return usageError{fmt.Errorf("--selector: %w", err)}
	}

	return nil
}

func (p *plugin) statusCommand() *cobra.Command {
	o := statusOptions{}
	command := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show on one screen how a cluster is, what the operator does with it and why; or list clusters with -A or -l",
		Long: "Show on one screen how a cluster is, what the operator does with it and why.\n\n" +
			"Versions, revisions and sizes are asked from the members, through the API server, with the client certificate of the\n" +
			"cluster: that takes the rights to read its Secrets and to forward ports. Without them the rest is shown.\n\n" +
			"With -A or -l, list one line for each Etcd. The list contains what the operator has reported, and queries no members.",
		Example: "  kubectl etcd status\n  kubectl etcd status etcd-main -n shoot--foo--bar -o wide\n  kubectl etcd status -A\n" +
			"  kubectl etcd status -l role=main --watch",
		Args:              atMostOneName,
		ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.validate(args); err != nil {
				return err
			}
			session, err := p.connect()
			if err != nil {
				return err
			}
			if o.watch {
				return p.watchStatus(command.Context(), session, args, o)
			}

			return p.showStatus(command.Context(), session, args, o)
		},
	}
	command.Flags().StringVarP(&o.output, "output", "o", "", "json, yaml, or wide for nodes, ids and all messages")
	command.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "list the Etcds of all namespaces")
	command.Flags().StringVarP(&o.selector, "selector", "l", "", "list the Etcds with these labels")
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "repeat every two seconds until the command is interrupted")

	return command
}

// showStatus prints the screen or the list once. The error is errUnhealthy if a cluster is not healthy.
func (p *plugin) showStatus(ctx context.Context, session *session, args []string, o statusOptions) error {
	if o.isList() {
		return p.listStatus(ctx, session, o)
	}
	status, err := session.status(ctx, args)
	if err != nil {
		return err
	}
	if err := p.print(status, o.output, func(wide bool) error { return status.Text(p.Out, wide) }); err != nil {
		return err
	}
	if !status.Healthy {
		return errUnhealthy
	}

	return nil
}

func (p *plugin) listStatus(ctx context.Context, session *session, o statusOptions) error {
	summaries, err := session.summaries(ctx, o)
	if err != nil {
		return err
	}
	if len(summaries) == 0 && o.output != "json" && o.output != "yaml" {
		_, err := fmt.Fprintln(p.ErrOut, "There are no Etcds.")

		return err
	}
	if err := p.print(summaries, o.output, func(wide bool) error { return report.List(p.Out, summaries, session.clock.Now(), wide) }); err != nil {
		return err
	}
	if slices.ContainsFunc(summaries, func(s report.Summary) bool { return !s.Healthy }) {
		return errUnhealthy
	}

	return nil
}

// summaries lists the Etcds in the order of their namespaces and names.
func (s *session) summaries(ctx context.Context, o statusOptions) ([]report.Summary, error) {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, err
	}
	options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}
	if !o.all {
		options = append(options, client.InNamespace(s.namespace))
	}
	etcds := &druidv1alpha1.EtcdList{}
	if err := s.List(ctx, etcds, options...); err != nil {
		return nil, explain(err)
	}
	summaries := make([]report.Summary, 0, len(etcds.Items))
	for i := range etcds.Items {
		etcd := &etcds.Items[i]
		canonical, errs := helper.Canonical(etcd)
		if len(errs) > 0 {
			canonical = etcd // the conditions report the contradiction
		}
		summaries = append(summaries, report.SummaryFor(etcd, canonical, s.clock.Now()))
	}
	slices.SortFunc(summaries, func(a, b report.Summary) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})

	return summaries, nil
}

// watchStatus repeats the screen until the command is interrupted. The exit code is that of the last screen.
func (p *plugin) watchStatus(ctx context.Context, session *session, args []string, o statusOptions) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, watchPeriod, true, func(context.Context) (bool, error) {
		screen := &bytes.Buffer{}
		once := &plugin{IOStreams: p.IOStreams, raw: p.raw, flags: p.flags}
		once.Out = &terminal{Writer: screen}
		current := once.showStatus(ctx, session, args, o)
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if last = current; last != nil && !errors.Is(last, errUnhealthy) {
			return false, last
		}
		if o.output == "" || o.output == "wide" {
			// Clears the terminal. Only this sequence is not escaped.
			_, _ = io.WriteString(p.raw.Out, "\x1b[H\x1b[2J\x1b[3J")
		}
		_, err := p.raw.Out.Write(screen.Bytes())

		return false, err
	})
	if err != nil && !wait.Interrupted(err) {
		return err
	}

	return last
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

// print prints a value in the format, or its text.
func (p *plugin) print(value any, output string, text func(wide bool) error) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(p.Out)
		encoder.SetIndent("", "  ")

		return encoder.Encode(value)
	case "yaml":
		text, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = p.Out.Write(text)

		return err
	default:
		return text(output == "wide")
	}
}

// hasKind is true if the API server serves the kind. It is false if discovery is not permitted.
func (s *session) hasKind(kind schema.GroupVersionKind) bool {
	_, err := s.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)

	return err == nil
}
