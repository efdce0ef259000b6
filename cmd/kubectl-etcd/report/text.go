// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mitchellh/go-wordwrap"
	"k8s.io/apimachinery/pkg/util/duration"
)

// columns is the width of the text.
const columns = 80

// label is the width of the labels at the beginning of the lines.
const label = 12

// Text writes the screen: at most 80 columns, one screen for a healthy cluster. wide adds the nodes, ids and sizes of members and the
// messages of all conditions, and takes as many columns as they need. The error is that of the writer.
func (s Status) Text(w io.Writer, wide bool) error {
	page := &page{now: s.Time, wide: wide}
	page.head(s)
	page.members(s)
	page.health(s)
	page.backups(s)
	page.certificates(s)
	page.conditions(s)
	page.unavailable(s)
	_, err := io.WriteString(w, page.String())

	return err
}

// page builds the text.
type page struct {
	strings.Builder

	now  time.Time
	wide bool
}

// line adds a line with a word in front, wrapped at spaces.
func (p *page) line(word, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !p.wide {
		text = wordwrap.WrapString(text, columns-label)
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			word = ""
		}
		p.WriteString(strings.TrimRight(fmt.Sprintf("%-*s%s", label, word, line), " ") + "\n")
	}
}

func (p *page) head(s Status) {
	p.line("ETCD", "%s/%s", s.Namespace, s.Name)
	if s.State == "Hibernated" {
		p.line("STATE", "Hibernated")
	} else {
		p.line("STATE", "%s: %d of %d members are healthy, the quorum is %d", s.State, s.Serving, s.Desired, s.Quorum)
	}
	p.line("STATUS", "%s", s.Message)
	if operation := s.Operation; operation != nil {
		p.line("OPERATION", "%s, phase %s for %s: %s", operation.Name, operation.Phase, p.age(operation.Since), operation.Message)
		if operation.Quorum != "" {
			p.line("", "%s", operation.Quorum)
		}
	}
	switch {
	case s.Observed == 0:
		p.line("SPEC", "generation %d is the first and has not been rolled out yet", s.Generation)
	case s.Generation != s.Observed:
		p.line("SPEC", "generation %d is not rolled out; the last one was %d", s.Generation, s.Observed)
	}
	if s.Suspended {
		p.line("", "reconciliation of the spec is suspended; resume it with kubectl etcd resume %s", s.Name)
	}
	if s.Unprotected {
		p.line("", "the protection of its objects is disabled; enable it with kubectl etcd protect %s", s.Name)
	}
	for _, lastError := range s.LastErrors {
		p.line("ERROR", "%s", lastError)
	}
}

func (p *page) members(s Status) {
	if len(s.Members) == 0 {
		return
	}
	p.WriteString("\n")
	table := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	header := []string{"MEMBER", "ROLE", "STATE", "VERSION", "REVISION", "DB", "RESTARTS", "AGE"}
	if p.wide {
		header = append(header, "IN USE", "WRAPPER", "SIDECAR", "NODE", "ID", "OUTDATED")
	}
	_, _ = fmt.Fprintln(table, strings.Join(header, "\t")) // a Builder takes everything
	for _, member := range s.Members {
		row := []string{
			member.Name, or(member.Role), member.State, or(member.Version), number(member.Revision), size(member.DBSize),
			fmt.Sprint(member.Restarts), p.age(member.Started),
		}
		if p.wide {
			row = append(row, size(member.InUse), or(member.Wrapper), or(member.Sidecar), or(member.Node), or(member.ID), fmt.Sprint(member.Outdated))
		}
		_, _ = fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush()
	p.warnings(s)
}

// warnings adds warnings about members below the table.
func (p *page) warnings(s Status) {
	for _, member := range s.Members {
		if member.Warning != "" {
			p.line("!", "%s", member.Warning)
		}
		if member.Outdated && !p.wide {
			p.line("!", "%s runs an older configuration than the newest", member.Name)
		}
	}
}

func (p *page) health(s Status) {
	p.WriteString("\n")
	largest := int64(0)
	for _, member := range s.Members {
		largest = max(largest, member.DBSize)
	}
	if largest == 0 || s.QuotaBytes == 0 {
		p.line("QUOTA", "%s, size not known", size(s.QuotaBytes))
	} else {
		p.line("QUOTA", "%s of %s used (%d %%)", size(largest), size(s.QuotaBytes), largest*100/s.QuotaBytes)
	}
	if len(s.Alarms) > 0 {
		p.line("ALARMS", "%s", strings.Join(s.Alarms, ", "))
	}
}

func (p *page) backups(s Status) {
	if s.Backups == nil {
		p.line("BACKUPS", "none: no store is configured")

		return
	}
	p.line("BACKUPS", "full   %s", p.snapshot(s.Backups.Full))
	p.line("", "delta  %s", p.snapshot(s.Backups.Delta))
	if s.Backups.Message != "" && (s.Backups.State != "True" || p.wide) {
		p.line("", "%s", s.Backups.Message)
	}
	if p.wide {
		p.line("", "store  %s, container %s, prefix %s", or(s.Backups.Provider), or(s.Backups.Container), or(s.Backups.Prefix))
	}
}

func (p *page) snapshot(snapshot Snapshot) string {
	if snapshot.Time.IsZero() {
		return "none yet"
	}

	return fmt.Sprintf("%s ago, up to revision %s", duration.HumanDuration(p.now.Sub(snapshot.Time)), or(snapshot.Revision))
}

func (p *page) certificates(s Status) {
	if len(s.Certificates) == 0 {
		return
	}
	shown := s.Certificates
	if !p.wide {
		shown = shown[:1]
	}
	for i, certificate := range shown {
		word := "CERTS"
		if i > 0 {
			word = ""
		}
		when := "expires in " + duration.HumanDuration(certificate.NotAfter.Sub(p.now))
		if certificate.NotAfter.Before(p.now) {
			when = "EXPIRED " + duration.HumanDuration(p.now.Sub(certificate.NotAfter)) + " ago"
		}
		p.line(word, "%s of Secret %s %s", certificate.Key, certificate.Secret, when)
	}
}

// conditions lists the names of conditions without a warning in one line, and the messages of all others.
func (p *page) conditions(s Status) {
	p.WriteString("\n")
	var fine []string
	for _, condition := range s.Conditions {
		switch {
		case !p.wide && s.Backups != nil && condition.Type == "BackupReady": // it is with the snapshots
		case p.wide || condition.Warning || condition.Status == "Unknown":
			p.line(mark(condition), "%s=%s (%s) for %s: %s", condition.Type, condition.Status, condition.Reason, p.age(condition.Since), condition.Message)
		case condition.Type != "Reconciled":
			fine = append(fine, condition.Type)
		}
	}
	if len(fine) > 0 {
		p.line("OK", "%s", strings.Join(fine, ", "))
	}
}

func mark(condition Condition) string {
	switch {
	case condition.Warning:
		return "WARNING"
	case condition.Status == "Unknown":
		return "UNKNOWN"
	default:
		return "OK"
	}
}

func (p *page) unavailable(s Status) {
	for _, unavailable := range s.Unavailable {
		p.line("UNAVAILABLE", "%s", unavailable)
	}
}

func (p *page) age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}

	return duration.HumanDuration(p.now.Sub(since))
}

func or(text string) string {
	if text == "" {
		return "-"
	}

	return text
}

func number(n int64) string {
	if n == 0 {
		return "-"
	}

	return fmt.Sprint(n)
}

// size is a number of bytes in the largest unit that leaves a whole part.
func size(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	units := []struct {
		bytes int64
		name  string
	}{{bytes: 1 << 30, name: "Gi"}, {bytes: 1 << 20, name: "Mi"}, {bytes: 1 << 10, name: "Ki"}}
	for _, unit := range units {
		if bytes >= unit.bytes {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/float64(unit.bytes)), ".0") + unit.name
		}
	}

	return fmt.Sprint(bytes)
}
