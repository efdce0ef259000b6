// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// grace is how long an interrupted command may take to clean up before it is killed.
const grace = 30 * time.Second

// A Runner starts the commands of a suite.
type Runner struct {
	// Root is the folder of the repository.
	Root string
	// Logs is the folder that gets the whole output of each command.
	Logs string
	// Out gets the progress, and the output of what has failed.
	Out io.Writer
}

// Run runs one suite. A set-up that fails counts as one failed test and keeps the steps from running.
func (r Runner) Run(ctx context.Context, suite Suite) Result {
	env, err := r.setUp(ctx, suite)
	if err != nil {
		return Result{Failed: []string{suite.Name + ": set-up: " + err.Error()}}
	}

	var total Result

	for i, step := range suite.Steps {
		log := filepath.Join(r.Logs, fmt.Sprintf("%s-%d", suite.Name, i+1))

		result, err := r.step(ctx, step, env, log)

		switch {
		case err != nil:
			result.Failed = append(result.Failed, fmt.Sprintf("%s: %s", suite.Name, err))
		case result.Passed+len(result.Failed) == 0:
			result.Failed = append(result.Failed, fmt.Sprintf("%s: step %d has run no test", suite.Name, i+1))
		}

		total.Add(result)
	}

	return total
}

func (r Runner) step(ctx context.Context, step Step, env []string, log string) (Result, error) {
	dir := filepath.Join(r.Root, step.Dir)

	switch step.Count {
	case GoTest:
		return r.goTest(ctx, step, dir, env, log)
	case Ginkgo:
		return r.ginkgo(ctx, step, dir, env, log)
	default:
		name := strings.Join(step.Command, " ")
		if err := (process{dir: dir, env: env, out: r.Out, log: log + ".log"}).run(ctx, step.Command...); err != nil {
			return Result{}, fmt.Errorf("%s: %w", name, err)
		}

		fmt.Fprintf(r.Out, "ok   %s\n", name)

		return Result{Passed: 1}, nil
	}
}

func (r Runner) setUp(ctx context.Context, suite Suite) ([]string, error) {
	var env []string

	start := time.Now()

	for i, setup := range suite.Setups {
		var out bytes.Buffer

		command := process{dir: r.Root, out: r.Out, log: filepath.Join(r.Logs, fmt.Sprintf("%s-setup-%d.log", suite.Name, i+1))}
		if setup.As != "" || setup.Exports {
			command.stdout = &out
		}

		if err := command.run(ctx, setup.Command...); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(setup.Command, " "), err)
		}

		env = append(env, setup.settings(out.String())...)
	}

	if len(suite.Setups) > 0 {
		fmt.Fprintf(r.Out, "set-up took %s\n", time.Since(start).Round(time.Second))
	}

	return env, nil
}

// export is a line of a shell that sets a variable, or puts something before what another one holds, as is done with PATH.
var export = regexp.MustCompile(`(?m)^export ([A-Z][A-Z0-9_]*)="([^"$\\]*)"(?:"\$([A-Z][A-Z0-9_]*)")?$`)

// settings returns what the output of a set-up adds to the environment.
func (s Setup) settings(output string) []string {
	var env []string

	if s.As != "" {
		lines := strings.Split(strings.TrimSpace(output), "\n")
		env = append(env, s.As+"="+lines[len(lines)-1])
	}

	if s.Exports {
		for _, match := range export.FindAllStringSubmatch(output, -1) {
			value := match[2]
			if match[3] != "" {
				value += os.Getenv(match[3])
			}

			env = append(env, match[1]+"="+value)
		}
	}

	return env
}

// A process is how a command is started.
type process struct {
	// dir is where it runs, env what is added to its environment.
	dir string
	env []string
	// out gets its output, and so does a new file at the path log.
	out io.Writer
	log string
	// stdout gets its standard output instead of both. Nil for no such difference.
	stdout io.Writer
}

// run runs a command to its end. One that is interrupted gets some time to clean up.
func (p process) run(ctx context.Context, args ...string) error {
	file, err := os.Create(p.log) // #nosec G304 -- a name of the table, below a new temporary folder
	if err != nil {
		return err
	}

	command := exec.CommandContext(ctx, args[0], args[1:]...) // #nosec G204 -- the commands of the table
	command.Dir = p.dir
	command.Env = append(os.Environ(), p.env...)
	command.Stdout = io.MultiWriter(file, p.out)
	command.Stderr = command.Stdout
	if p.stdout != nil {
		command.Stdout = p.stdout
	}
	// A group of its own: `go run` and `make` do not pass the signal on to what they have started.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGINT) }
	command.WaitDelay = grace

	err = command.Run()
	if ctx.Err() != nil && command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what has not used the time
	}

	return errors.Join(err, file.Close())
}

// goTest runs `go test -json` and counts while it goes.
func (r Runner) goTest(ctx context.Context, step Step, dir string, env []string, log string) (Result, error) {
	packages, err := packagesIn(ctx, dir, step.Packages)
	if err != nil {
		return Result{}, err
	}

	if len(packages) == 0 {
		return Result{}, fmt.Errorf("no packages to test in %s", dir)
	}

	var (
		report         = NewGoReport(r.Out)
		reader, writer = io.Pipe()
		counted        = make(chan error, 1)
	)

	go func() {
		err := report.Read(bufio.NewReader(reader))
		_, _ = io.Copy(io.Discard, reader)
		counted <- err
	}()

	args := append([]string{"go", "test", "-json"}, step.Command...)
	failure := process{dir: dir, env: env, out: writer, log: log + ".json"}.run(ctx, append(args, packages...)...)
	_ = writer.Close()

	if err := <-counted; err != nil {
		return report.Result(), err
	}

	result := report.Result()
	if failure != nil && len(result.Failed) == 0 {
		return result, fmt.Errorf("go test in %s: %w; see %s.json", dir, failure, log)
	}

	return result, nil
}

// ginkgo runs the specs of a package in several processes and counts them from Ginkgo's report.
func (r Runner) ginkgo(ctx context.Context, step Step, dir string, env []string, log string) (Result, error) {
	// The command is that of the library's own version, which go.mod pins.
	args := append([]string{"go", "run", "github.com/onsi/ginkgo/v2/ginkgo",
		"--keep-going", "--json-report=report.json", "--output-dir=" + log}, step.Command...)
	failure := process{dir: dir, env: env, out: r.Out, log: log + ".log"}.run(ctx, args...)

	result, err := ReadGinkgoReport(filepath.Join(log, "report.json"))
	if err != nil {
		return result, fmt.Errorf("%w (ginkgo: %w)", err, failure)
	}

	if failure != nil && len(result.Failed) == 0 {
		return result, fmt.Errorf("ginkgo: %w", failure)
	}

	return result, nil
}
