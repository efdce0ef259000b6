// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

func (p *plugin) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why [NAME]",
		Short: "Show the last decisions of the operator with their reasons",
		Long: "Show the last decisions of the operator with their reasons, the newest last. They are events: what the operator did, and the\n" +
			"changes that it observed. The API server deletes events after about an hour.",
		Args: atMostOneName, ValidArgsFunction: p.completeNames,
		RunE: func(command *cobra.Command, args []string) error {
			session, err := p.connect()
			if err != nil {
				return err
			}
			etcd, _, err := session.etcd(command.Context(), args)
			if err != nil {
				return err
			}
			decisions, err := session.decisions(command.Context(), etcd.Name)
			if err != nil {
				return err
			}
			now := "nothing was reported yet"
			if reconciled := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeReconciled); reconciled != nil {
				now = reconciled.Message
			}

			return report.Decisions(p.Out, decisions, now, session.clock.Now())
		},
	}
}

// decisions are the events about an Etcd, the oldest first.
func (s *session) decisions(ctx context.Context, name string) ([]report.Decision, error) {
	events := &corev1.EventList{}
	if err := s.List(ctx, events, client.InNamespace(s.namespace), client.MatchingFieldsSelector{
		Selector: fields.SelectorFromSet(fields.Set{"involvedObject.kind": "Etcd", "involvedObject.name": name}),
	}); err != nil {
		return nil, fmt.Errorf("reading events: %w", explain(err))
	}
	decisions := make([]report.Decision, 0, len(events.Items))
	for _, event := range events.Items {
		decisions = append(decisions, report.Decision{
			Time: timeOf(event), Reason: event.Reason, Message: event.Message, Warning: event.Type == corev1.EventTypeWarning,
		})
	}
	slices.SortStableFunc(decisions, func(a, b report.Decision) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })

	return decisions, nil
}

// timeOf is when an event last happened: newer clients write one field, older ones another, and a series a third.
func timeOf(event corev1.Event) time.Time {
	newest := event.EventTime.Time
	if event.LastTimestamp.After(newest) {
		newest = event.LastTimestamp.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(newest) {
		newest = event.Series.LastObservedTime.Time
	}

	return newest
}
