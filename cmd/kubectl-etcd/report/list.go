// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// listMessage is the width of the last column, which contains the action of the operator.
const listMessage = 60

// Summary is one line about an Etcd. It contains only what the operator reports in the status of the Etcd, so that a list needs one
// request to the API server.
type Summary struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Healthy and State are those of Status. The state is as old as the last observation of the operator.
	Healthy bool   `json:"healthy"`
	State   string `json:"state"`
	// Serving is the number of healthy voting members, and Desired spec.replicas.
	Serving int `json:"serving"`
	Desired int `json:"desired"`
	// Version of etcd. It contains each version if the members have several ones. Empty: not known.
	Version string `json:"version,omitempty"`
	// Backup is the status of the condition BackupReady. Empty: no store is configured, or the cluster is hibernated.
	Backup string `json:"backup,omitempty"`
	// Warnings are the conditions that require attention, and Message that of the operator about its current action.
	Warnings []string `json:"warnings,omitempty"`
	Message  string   `json:"status"`
	// Created is the time of the creation of the Etcd.
	Created time.Time `json:"created"`
}

// SummaryFor computes the line of an Etcd.
func SummaryFor(etcd, canonical *druidv1alpha1.Etcd, now time.Time) Summary {
	// The pods are not read. The condition Ready therefore determines the state.
	unread := etcdcluster.Observation{Failures: []etcdcluster.ReadFailure{{Section: etcdcluster.SectionPods}}}
	status := StatusFor(Facts{Etcd: etcd, Canonical: canonical, Observation: unread, Now: now})
	summary := Summary{
		Namespace: etcd.Namespace, Name: etcd.Name, Healthy: status.Healthy, State: status.State, Desired: status.Desired,
		Message: status.Message, Created: etcd.CreationTimestamp.Time,
	}
	var versions []string
	for _, member := range etcd.Status.Members {
		if member.Status == druidv1alpha1.EtcdMemberStatusReady {
			summary.Serving++
		}
		if member.EtcdVersion != nil && *member.EtcdVersion != "" {
			versions = append(versions, *member.EtcdVersion)
		}
	}
	slices.Sort(versions)
	summary.Version = strings.Join(slices.Compact(versions), ", ")
	if canonical.Spec.Backup.Store != nil && !helper.IsHibernated(canonical) {
		summary.Backup = string(druidv1alpha1.ConditionUnknown)
		if condition := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeBackupReady); condition != nil {
			summary.Backup = string(condition.Status)
		}
	}
	for _, condition := range status.Conditions {
		if condition.Warning {
			summary.Warnings = append(summary.Warnings, condition.Type)
		}
	}

	return summary
}

// List writes a table. wide adds the complete messages.
func List(w io.Writer, summaries []Summary, now time.Time, wide bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := []string{"NAMESPACE", "NAME", "STATE", "MEMBERS", "VERSION", "BACKUP", "AGE", "STATUS"}
	if _, err := fmt.Fprintln(table, strings.Join(header, "\t")); err != nil {
		return err
	}
	for _, s := range summaries {
		message := s.Message
		if len(s.Warnings) > 0 {
			message = strings.Join(s.Warnings, ", ") + ": " + message
		}
		message = strings.Join(strings.Fields(message), " ")
		if !wide {
			message = shortened(message)
		}
		row := []string{s.Namespace, s.Name, s.State, fmt.Sprintf("%d/%d", s.Serving, s.Desired), or(s.Version), or(s.Backup), duration.HumanDuration(now.Sub(s.Created)), message}
		if _, err := fmt.Fprintln(table, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	unhealthy := 0
	for _, s := range summaries {
		if !s.Healthy {
			unhealthy++
		}
	}
	_, err := fmt.Fprintf(w, "\n%d Etcds, %d of them are not healthy\n", len(summaries), unhealthy)

	return err
}

// shortened returns the beginning of a message that is too long for the column.
func shortened(message string) string {
	if utf8.RuneCountInString(message) <= listMessage {
		return message
	}
	runes := []rune(message)

	return string(runes[:listMessage-1]) + "…"
}
