// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
)

// lanes is the number of steps that run at the same time. Two calls of go that need a package at the same time both compile it. Therefore the
// first lane contains all steps that share packages with the operator. The second lane uses the CPUs while the first one links.
const lanes = 2

// reportPeriod is the longest time without a line while programs are built.
const reportPeriod = 10 * time.Second

// plan contains the steps of each lane in their order.
type plan [lanes][]*step

// step is one call of go build.
type step struct {
	// what names the programs in messages.
	what string
	// command builds the packages in dir.
	command  []string
	dir      string
	packages []string
	// finish is called after the build. Nil does nothing.
	finish func() error

	// compiled is the number of packages that Go has compiled. total is the number of packages that the programs consist of, or 0 while it
	// is unknown.
	compiled, total atomic.Int64
}

// plan returns the steps that build the modules: one for each directory, in the order of the modules. Go then compiles all programs of a
// directory in one graph, and links programs while it compiles others.
func (b Builder) plan(modules []Module) plan {
	var (
		result   plan
		previous string
		together []Module
	)

	flush := func() {
		if len(together) == 0 {
			return
		}

		lane := 1
		if together[0].isShared() {
			lane = 0
		}

		result[lane] = append(result[lane], b.step(together))
		together = nil
	}

	for _, m := range modules {
		if m.directory() != previous {
			flush()
		}

		previous, together = m.directory(), append(together, m)
	}

	flush()

	return result
}

// step returns the step that builds modules of one directory.
func (b Builder) step(modules []Module) *step {
	out := filepath.Join(b.bin(), unfinished+filepath.Base(modules[0].directory()))
	s := &step{
		dir:     filepath.Join(b.modules(), modules[0].directory()),
		command: []string{"go", "build", "-v", "-o", out + "/", "-ldflags=-s -w"},
	}

	var names []string

	for _, m := range modules {
		packages := slices.Sorted(maps.Values(m.Programs))
		names, s.packages = append(names, m.Name), append(s.packages, packages...)

		for _, pkg := range packages {
			if m.LinkerFlags != "" {
				s.command = append(s.command, "-ldflags="+pkg+"=-s -w "+m.LinkerFlags)
			}
		}
	}

	s.what, s.command = strings.Join(names, ", "), append(s.command, s.packages...)
	s.finish = func() error {
		defer func() { _ = os.RemoveAll(out) }()

		for _, m := range modules {
			if err := b.install(m, out); err != nil {
				return err
			}
		}

		return nil
	}

	return s
}

// commands returns the steps that build the commands of the checkout at root into the directory. etcd-helper is a module of its own.
func (b Builder) commands(root, dir string) []*step {
	const helper = "cmd/etcd-helper"

	build := filepath.Join(root, script)

	return []*step{
		{what: "the operator, kubectl-etcd", dir: root, packages: []string{"./cmd/..."}, command: []string{build, "-v", "-o", dir + "/", "./cmd/..."}},
		{what: "etcd-helper", dir: filepath.Join(root, helper), packages: []string{"."}, command: []string{build, "-C", helper, "-v", "-o", dir + "/", "."}},
	}
}

var version = regexp.MustCompile(`^v\d+$`)

// executable returns the name that go build gives the program of a package.
func (m Module) executable(pkg string) string {
	if pkg == "." {
		pkg = m.directory()
	}

	if version.MatchString(path.Base(pkg)) {
		pkg = path.Dir(pkg)
	}

	return path.Base(pkg)
}

// run runs the steps of each lane in their order, and the lanes concurrently. It prints in each period what is built and what is left. After
// the first error it interrupts the other lanes.
func (b Builder) run(ctx context.Context, steps plan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var (
		group   sync.WaitGroup
		errs    [lanes]error
		current progressOf
	)

	reported := make(chan struct{})
	go func() {
		defer close(reported)
		b.report(ctx, steps, &current)
	}()

	for lane := range steps {
		group.Go(func() {
			for _, s := range steps[lane] {
				if errs[lane] = b.build(ctx, s); errs[lane] != nil {
					cancel()
					return
				}

				current[lane].Add(1)
			}
		})
	}

	group.Wait()
	cancel()
	<-reported

	return errors.Join(errs[:]...)
}

// progressOf is the number of completed steps of each lane.
type progressOf [lanes]atomic.Int64

// report prints a line in each period until the context ends.
func (b Builder) report(ctx context.Context, steps plan, current *progressOf) {
	ticker := time.NewTicker(reportPeriod)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.Out.Println("%s", steps.describe(current))
		}
	}
}

// describe returns a line with the running steps and those that are left.
func (p plan) describe(current *progressOf) string {
	var running, left []string

	for lane, steps := range p {
		for i, s := range steps[current[lane].Load():] {
			if i == 0 {
				running = append(running, s.String())
			} else {
				left = append(left, s.what)
			}
		}
	}

	line := "building " + strings.Join(running, " and ")
	if len(left) > 0 {
		line += "; left: " + strings.Join(left, ", ")
	}

	return line
}

// count sets the totals of the steps. It also downloads the modules of later steps while the first ones compile.
func (b Builder) count(ctx context.Context, p plan) {
	for i := range max(len(p[0]), len(p[1])) {
		for _, steps := range p {
			if i < len(steps) {
				// An error is that of the build too.
				output, _ := b.golang(ctx, steps[i].dir, append([]string{"list", "-deps"}, steps[i].packages...)...).Output()
				steps[i].total.Store(int64(strings.Count(string(output), "\n")))
			}
		}
	}
}

func (s *step) String() string {
	text := fmt.Sprintf("%s (%d packages compiled", s.what, s.compiled.Load())
	if total := s.total.Load(); total > 0 {
		text += fmt.Sprintf(", %d at most", total)
	}

	return text + ")"
}

// build runs the step. The error contains the output of the compiler.
func (b Builder) build(ctx context.Context, s *step) error {
	start := time.Now()
	command := prepare(exec.CommandContext(ctx, s.command[0], s.command[1:]...), s.dir)

	output, err := command.StderrPipe()
	if err != nil {
		return err
	}

	if err := command.Start(); err != nil {
		return fmt.Errorf("building %s: %w", s.what, err)
	}

	messages := s.follow(output)

	if err := command.Wait(); err != nil {
		return fmt.Errorf("building %s in %s: %w\n%s", s.what, s.dir, err, messages)
	}

	if s.finish != nil {
		if err := s.finish(); err != nil {
			return fmt.Errorf("installing %s: %w", s.what, err)
		}
	}

	if s.compiled.Load() > 0 {
		b.Out.Println("built %s in %s", s.what, progress.Round(time.Since(start)))
	}

	return nil
}

// follow reads the output of `go build -v`: a line for each package that Go compiles, and messages. It returns the messages.
func (s *step) follow(output io.Reader) string {
	var messages strings.Builder

	for lines := bufio.NewScanner(output); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
		case strings.ContainsAny(line, " \t"), line == "":
			messages.WriteString(line + "\n")
		default:
			s.compiled.Add(1)
		}
	}

	return messages.String()
}
