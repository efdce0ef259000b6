// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// Report is what a directory with snapshots contains, in its form in JSON.
type Report struct {
	// Sets are the full snapshots with the delta snapshots after them, from the oldest to the newest. Omitted is the number of older ones that
	// are not listed.
	Sets    []SetReport `json:"sets"`
	Omitted int         `json:"omitted,omitempty"`
}

// SetReport is what a full snapshot and the delta snapshots after it contain.
type SetReport struct {
	// Full is the name of the full snapshot. BaseRevision and BaseCompactRevision are those of its database.
	Full                string `json:"full"`
	BaseRevision        int64  `json:"baseRevision,omitempty"`
	BaseCompactRevision int64  `json:"baseCompactRevision,omitempty"`
	// Revision is the highest one of the snapshots that can be replayed completely. Time is when the sidecar received its event.
	// Keys and Hash are those of the database at this revision, and Alarms are the types of its alarms.
	Revision int64      `json:"revision,omitempty"`
	Time     *time.Time `json:"time,omitempty"`
	Keys     int64      `json:"keys,omitempty"`
	Hash     uint32     `json:"hash,omitempty"`
	Alarms   []string   `json:"alarms,omitempty"`
	// Deltas are the delta snapshots. Nil if they are not listed.
	Deltas []DeltaReport `json:"deltas,omitempty"`
	// DeltaCount is the number of delta snapshots.
	DeltaCount int `json:"deltaCount"`
	// Problem is why no higher revision can be reached. Empty: all snapshots were read.
	Problem string `json:"problem,omitempty"`
}

// DeltaReport is what a delta snapshot contains.
type DeltaReport struct {
	Name string `json:"name"`
	// Events is the number of its events. Leased is the number of those with a lease, which a restore by the sidecar drops.
	Events int `json:"events"`
	Leased int `json:"leased,omitempty"`
	// FirstTime and LastTime are when the sidecar received the first and the last event.
	FirstTime *time.Time `json:"firstTime,omitempty"`
	LastTime  *time.Time `json:"lastTime,omitempty"`
	// Problem is why it cannot be read.
	Problem string `json:"problem,omitempty"`
}

// Shorten removes the lists of delta snapshots first, and then the oldest set. It returns false if nothing can be removed.
func (r *Report) Shorten() bool {
	hasDeltas := false
	for i := range r.Sets {
		hasDeltas = hasDeltas || len(r.Sets[i].Deltas) > 0
		r.Sets[i].Deltas = nil
	}
	if hasDeltas {
		return true
	}
	if len(r.Sets) < 2 {
		return false
	}
	r.Sets, r.Omitted = r.Sets[1:], r.Omitted+1

	return true
}

// Inspect reads all snapshots in a directory. It replays each set in the directory work. A snapshot that cannot be used is a problem of its set
// and not an error.
func Inspect(dir, work string, log *zap.Logger) (report Report, err error) {
	sets, err := snapshots.Sets(dir)
	if err != nil {
		return Report{}, err
	}
	temporary, err := os.MkdirTemp(work, "inspect-")
	if err != nil {
		return Report{}, fmt.Errorf("creating a directory for the databases: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	for _, set := range sets {
		request := Request{Output: filepath.Join(temporary, "db"), AllowOverlap: false, Log: log}
		found, err := request.report(set)
		if err != nil {
			return Report{}, err
		}
		report.Sets = append(report.Sets, found)
	}

	return report, nil
}

// report replays a set.
func (r Request) report(set snapshots.Set) (SetReport, error) {
	report := SetReport{Full: filepath.Base(set.Full.Path), DeltaCount: len(set.Deltas)}
	for _, delta := range set.Deltas {
		report.Deltas = append(report.Deltas, reportDelta(delta))
	}
	opened, result, err := r.open(set.Full)
	if err != nil {
		report.Problem = err.Error()

		return report, nil //nolint:nilerr // the problem is part of the report
	}
	for _, delta := range set.Deltas {
		if err := opened.addTo(&result, delta, latest); err != nil {
			report.Problem = err.Error()

			break
		}
	}
	report.BaseRevision, report.BaseCompactRevision = result.BaseRevision, result.BaseCompactRevision
	report.Time = result.Time
	err = errors.Join(opened.close(), r.inspectSet(&report))

	return report, errors.Join(err, os.Remove(r.Output))
}

// inspectSet sets the fields that the replayed database contains.
func (r Request) inspectSet(report *SetReport) error {
	return inspect.View(r.Output, inspect.Options{Timeout: time.Second, Log: r.Log}, func(database *inspect.Database) error {
		member, err := database.Member()
		report.Revision, report.Keys, report.Hash, report.Alarms = member.Revision, member.Keys, member.Hash, member.Alarms

		return err
	})
}

func reportDelta(delta snapshots.File) DeltaReport {
	report := DeltaReport{Name: filepath.Base(delta.Path)}
	events, err := delta.Events()
	if err != nil {
		report.Problem = err.Error()
	}
	for i, event := range events {
		if event.Event.Kv.Lease != 0 {
			report.Leased++
		}
		if i == 0 {
			report.FirstTime = &event.Time
		}
		report.LastTime = &event.Time
	}
	report.Events = len(events)

	return report
}
