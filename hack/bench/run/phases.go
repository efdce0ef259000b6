// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/measure"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
)

const (
	// changesProfile is the length of the CPU profiles of the creation and of the changes.
	changesProfile = 60 * time.Second
	// maxQuietWait limits the wait until the operator writes nothing.
	maxQuietWait = 3 * time.Minute
)

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
		{"creation", changesProfile, r.create},
		{phaseIdle, r.Idle, r.idle},
		{phaseIdleWithLoad, r.Idle, r.idleWithLoad},
		{phaseRestart, 0, r.restart}, // begins a profile after the start
		{"single changes", 0, r.changeSome},
		{"one changed label of all", changesProfile, r.changeAll},
	}
	if r.NodeLoss {
		list = append(list, measurement{"loss of a node", 0, r.loseNode})
	}

	return list
}

// phases measures all phases.
func (r *runner) phases(ctx context.Context) error {
	for _, prepare := range []func(context.Context) error{r.createNodes, r.operator.start, r.prepareNamespaces} {
		if err := prepare(ctx); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	for _, m := range r.measurements() {
		r.Log.Info("Phase begins", "phase", m.name)
		phase, err := r.phase(ctx, m)
		if err != nil {
			return fmt.Errorf("phase %q: %w", m.name, err)
		}
		r.result.Phases = append(r.result.Phases, phase)
	}

	return nil
}

// CheckIdle returns an error if the operator wrote in a phase without changes.
func CheckIdle(result report.Result) error {
	for _, phase := range result.Phases {
		if phase.Name != phaseIdle && phase.Name != phaseIdleWithLoad {
			continue
		}
		if writes := phase.SumRequests(report.Requests.IsOperatorWrite); writes > 0 {
			return fmt.Errorf("the operator has sent %d writes in the phase %q", writes, phase.Name)
		}
	}

	return nil
}

// phase measures one phase.
func (r *runner) phase(ctx context.Context, m measurement) (report.Phase, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("the phase took more than %s", r.Timeout))
	defer cancel()
	phase := report.Phase{Name: m.name}
	if err := r.audit.Reset(); err != nil {
		return phase, err
	}
	before, err := r.cpu()
	if err != nil {
		return phase, err
	}
	pid := r.operator.pid
	finished := r.startProfile(ctx, m.name, m.profile)
	now := clock{start: time.Now()}
	if phase.Durations, err = m.measure(ctx, now); err != nil {
		return phase, errors.Join(err, context.Cause(ctx))
	}
	phase.Seconds = time.Since(now.start).Seconds()
	if phase.Requests, err = r.audit.Requests(); err != nil {
		return phase, err
	}
	if phase.CPU, err = r.cpu(); err != nil {
		return phase, err
	}
	if r.operator.pid != pid { // the phase has restarted the operator
		before[report.OperatorClient] = 0
	}
	for process := range phase.CPU {
		phase.CPU[process] -= before[process]
	}
	phase.Operator, err = r.operator.state(ctx, fileName(m.name)+".heap.prof")
	<-finished

	return phase, err
}

// cpu returns the CPU seconds of each process that runs, until now.
func (r *runner) cpu() (map[string]float64, error) {
	pids, err := measure.Processes(r.Pids)
	if err != nil {
		return nil, err
	}
	pids[report.OperatorClient] = r.operator.pid
	seconds := map[string]float64{}
	for name, pid := range pids {
		if process, err := measure.Process(pid); err == nil {
			seconds[name] = process.CPUTime()
		}
	}

	return seconds, nil
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
func fileName(phase string) string { return strings.ReplaceAll(phase, " ", "-") }

// awaitNoWrites waits until the operator has written nothing for some time, so that no work is left for the next phase.
func (r *runner) awaitNoWrites(ctx context.Context) error {
	last, writes, deadline := time.Now(), -1, time.Now().Add(maxQuietWait)

	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		requests, err := r.audit.Requests()
		if current := (report.Phase{Requests: requests}).SumRequests(report.Requests.IsOperatorWrite); current != writes {
			last, writes = time.Now(), current
		}
		if last.After(deadline) {
			r.Log.Info("The operator still writes", "waited", maxQuietWait)
		}

		return last.After(deadline) || time.Since(last) >= r.Quiet, err
	})
}
