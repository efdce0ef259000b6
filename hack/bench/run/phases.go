// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/measure"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
)

// maxProfile is the longest CPU profile.
const maxProfile = 60 * time.Second

// clock is the time of a phase.
type clock struct{ start time.Time }

func (c clock) until(name string, end time.Time) report.Duration {
	return report.Duration{Name: name, Seconds: end.Sub(c.start).Seconds()}
}

// Names of phases.
const (
	phaseIdle         = "idle"
	phaseIdleWithLoad = "idle with 10 revisions per second"
	phaseRestart      = "restart of the operator"
)

// measurement is a phase that is to be measured. profile is the length of its CPU profile. 0: none.
type measurement struct {
	name    string
	profile time.Duration
	measure func(context.Context, clock) ([]report.Duration, error)
}

// measurements are all phases in their order.
func (r *runner) measurements() []measurement {
	list := []measurement{
		{"creation", maxProfile, r.create},
		{phaseIdle, r.Idle, r.idle},
		{phaseIdleWithLoad, r.Idle, r.idleWithLoad},
		{phaseRestart, 0, r.restart}, // begins a profile after the start
		{"single changes", 0, r.changeSome},
		{"one changed label of all", maxProfile, r.changeAll},
	}
	if r.NodeLoss {
		list = append(list, measurement{"loss of a node", 0, r.loseNode})
	}

	return list
}

// phases measures all phases.
func (r *runner) phases(ctx context.Context) error {
	if err := r.operator.start(ctx); err != nil {
		return err
	}
	if err := r.prepareNamespaces(ctx); err != nil {
		return err
	}
	for _, m := range r.measurements() {
		r.Log.Info("Phase begins", "phase", m.name)
		if err := r.phase(ctx, m); err != nil {
			return fmt.Errorf("phase %q: %w", m.name, err)
		}
	}

	return nil
}

// CheckIdle returns an error if the operator wrote in a phase without changes.
func CheckIdle(result report.Result) error {
	for _, phase := range result.Phases {
		if phase.Name != phaseIdle && phase.Name != phaseIdleWithLoad {
			continue
		}
		if writes := phase.SumRequests(isOperatorWrite); writes > 0 {
			return fmt.Errorf("the operator has sent %d writes in the phase %q", writes, phase.Name)
		}
	}

	return nil
}

// isOperatorWrite returns whether the operator changed objects, except for its own Leases.
func isOperatorWrite(q report.Requests) bool {
	return q.Client == report.OperatorClient && q.IsWrite() && !q.Own
}

// phase measures one phase. It then waits until the operator writes nothing more, so that no work is left for the next phase.
func (r *runner) phase(ctx context.Context, m measurement) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("the phase took more than %s", r.Timeout))
	defer cancel()
	pids, err := measure.Processes(r.Pids)
	if err != nil {
		return err
	}
	if err := r.audit.Skip(); err != nil {
		return err
	}
	r.requests = nil
	pid := r.operator.pid()
	before := cpuOf(pids)
	operatorBefore, err := measure.CPUSeconds(pid)
	if err != nil {
		return err
	}
	finished := r.startProfile(ctx, m.name, m.profile)
	now := clock{start: time.Now()}
	durations, err := m.measure(ctx, now)
	if err != nil {
		return err
	}
	result := report.Phase{Name: m.name, Seconds: time.Since(now.start).Seconds(), Durations: durations}
	if err := r.count(); err != nil {
		return err
	}
	if result.Requests = r.requests; r.operator.pid() != pid { // the phase has restarted the operator
		operatorBefore = 0
	}
	operatorAfter, err := measure.CPUSeconds(r.operator.pid())
	if err != nil {
		return err
	}
	result.CPU = append(result.CPU, report.CPU{Process: report.OperatorClient, Seconds: operatorAfter - operatorBefore})
	after := cpuOf(pids)
	for _, process := range slices.Sorted(maps.Keys(after)) {
		result.CPU = append(result.CPU, report.CPU{Process: process, Seconds: after[process] - before[process]})
	}
	if result.Operator, err = r.operator.state(ctx, fileName(m.name)+".heap.prof"); err != nil {
		return err
	}
	r.result.Phases = append(r.result.Phases, result)
	<-finished

	return nil
}

func cpuOf(pids map[string]int) map[string]float64 {
	seconds := map[string]float64{}
	for name, pid := range pids {
		if used, err := measure.CPUSeconds(pid); err == nil {
			seconds[name] = used
		}
	}

	return seconds
}

// startProfile writes a CPU profile of the operator. The channel is closed when it was written.
func (r *runner) startProfile(ctx context.Context, name string, length time.Duration) <-chan struct{} {
	finished := make(chan struct{})
	if !r.Profiles || length == 0 {
		close(finished)

		return finished
	}
	go func() {
		defer close(finished)
		if err := r.operator.profile(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(length.Seconds())), fileName(name)+".cpu.prof"); err != nil {
			r.Log.Error(err, "No CPU profile was written", "phase", name)
		}
	}()

	return finished
}

// fileName is the name of a phase in names of files.
func fileName(phase string) string {
	name := []byte(phase)
	for i := range name {
		if name[i] == ' ' {
			name[i] = '-'
		}
	}

	return string(name)
}

// count adds the requests since the last call to those of the phase.
func (r *runner) count() error {
	requests, err := r.audit.Next()
	if err != nil {
		return err
	}
	r.requests = measure.Merge(r.requests, requests)

	return nil
}

// operatorWrites returns the number of writes of the operator in the phase until now.
func (r *runner) operatorWrites() (int, error) {
	if err := r.count(); err != nil {
		return 0, err
	}

	return report.Phase{Requests: r.requests}.SumRequests(isOperatorWrite), nil
}

// awaitNoWrites waits until the operator has written nothing for some time, and returns the time of its last write.
func (r *runner) awaitNoWrites(ctx context.Context) (time.Time, error) {
	last, writes := time.Now(), -1
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(r.MaxQuietWait); ; {
		now := time.Now()
		current, err := r.operatorWrites()
		if err != nil {
			return time.Time{}, err
		}
		if current != writes {
			last, writes = now, current
		}
		if now.Sub(last) >= r.Quiet {
			return last, nil
		}
		if now.After(deadline) {
			r.Log.Info("The operator still writes", "waited", r.MaxQuietWait)

			return now, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
