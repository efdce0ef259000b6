// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
)

// compilerGC makes the compiler and the linker collect garbage less often. Each uses a sixth less processor time and 100 MiB more
// memory. Their output is the same.
const compilerGC = "GOGC=400"

// script builds the commands of the checkout, as for a release.
const script = "hack/build.sh"

// unfinished is the prefix of the directories in which builds run.
const unfinished = ".unfinished-"

// Builder builds modules into the cache directory. It builds the same input only once.
type Builder struct {
	Layout layout.Layout
	Out    *progress.Printer
}

// Ensure builds the named modules that the cache does not contain. Without names it builds all modules of the
// catalogue. A module appears in the cache atomically, so that the cache never contains an interrupted build.
func (b Builder) Ensure(ctx context.Context, names ...string) error {
	var missing []Module

	for _, m := range Catalogue() {
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}

		dir, err := b.dir(m)
		if err != nil {
			return err
		}

		if _, err := os.Stat(dir); err != nil {
			missing = append(missing, m)
		}
	}

	if len(missing) == 0 {
		return nil
	}

	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	for i, m := range missing {
		if err := b.buildModule(ctx, i+1, len(missing), m); err != nil {
			return err
		}
	}

	return nil
}

// buildModule builds a module and prints a line before, after, and every half minute.
func (b Builder) buildModule(ctx context.Context, index, count int, m Module) error {
	start := time.Now()
	what := fmt.Sprintf("[%d/%d] %s", index, count, m.Name)
	b.Out.Println("%s: building %s", what, strings.Join(slices.Sorted(maps.Keys(m.Programs)), ", "))

	if err := b.withProgress(what, func() error { return b.build(ctx, m) }); err != nil {
		return err
	}

	b.Out.Println("%s: built in %s", what, progress.Round(time.Since(start)))

	return nil
}

// withProgress calls work and prints a line every half minute until work returns.
func (b Builder) withProgress(what string, work func() error) error {
	start := time.Now()

	ticker := time.NewTicker(30 * time.Second)
	defer ticker.Stop()

	done := make(chan error, 1)
	go func() { done <- work() }()

	for {
		select {
		case <-ticker.C:
			b.Out.Println("%s: still building after %s", what, progress.Round(time.Since(start)))
		case err := <-done:
			return err
		}
	}
}

func (b Builder) build(ctx context.Context, m Module) error {
	target, err := b.dir(m)
	if err != nil {
		return err
	}

	if _, err := os.Stat(target); err == nil {
		return nil // another command built it while this one waited for the lock
	}

	temporary, err := os.MkdirTemp(filepath.Dir(target), unfinished+m.Name+"-")
	if err != nil {
		return fmt.Errorf("creating a directory for the build: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()

	for _, step := range steps(m, temporary) {
		if err := b.golang(ctx, b.source(m), append([]string{"build", "-ldflags", strings.TrimSpace("-s -w " + m.LinkerFlags)}, step...)...); err != nil {
			return fmt.Errorf("building %s: %w", m.Name, err)
		}
	}

	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}

	if err := os.Rename(temporary, target); err != nil && !os.IsExist(err) {
		return fmt.Errorf("renaming the build of %s: %w", m.Name, err)
	}

	b.prune(filepath.Dir(target), m, filepath.Base(target))

	return nil
}

// prune removes other builds of the module. Programs that run from them continue to run.
func (b Builder) prune(dir string, m Module, keep string) {
	others, _ := filepath.Glob(filepath.Join(dir, m.Name+"-"+strings.Repeat("[0-9a-f]", keyLength)))
	for _, other := range others {
		if filepath.Base(other) != keep {
			_ = os.RemoveAll(other) // an error costs only disk space
		}
	}
}

// lock waits until no other command builds, and then removes the remains of interrupted builds.
func (b Builder) lock(ctx context.Context) (unlock func(), err error) {
	dir := filepath.Join(b.Layout.Cache, "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the cache directory: %w", err)
	}

	file, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the cache: %w", err)
	}

	if err := b.Out.Wait(ctx, "the cache", time.Hour, func(context.Context) (string, error) {
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			return "another command is building", nil
		}

		return "", nil
	}); err != nil {
		_ = file.Close()
		return nil, err
	}

	leftovers, _ := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	for _, leftover := range leftovers {
		_ = os.RemoveAll(leftover) // an error costs only disk space
	}

	return func() { _ = file.Close() }, nil
}

// steps returns the last arguments of each call of go build. It builds packages in one call if their last element is
// the name of the program.
func steps(m Module, out string) [][]string {
	together := []string{"-o", out + "/"}

	var calls [][]string

	for _, name := range slices.Sorted(maps.Keys(m.Programs)) {
		if pkg := m.Programs[name]; filepath.Base(pkg) == name {
			together = append(together, pkg)
		} else {
			calls = append(calls, []string{"-o", filepath.Join(out, name), pkg})
		}
	}

	if len(together) > 2 {
		calls = append(calls, together)
	}

	return calls
}

// Program returns the path of a program that Ensure has built.
func (b Builder) Program(module, name string) (string, error) {
	for _, m := range Catalogue() {
		if m.Name == module {
			dir, err := b.dir(m)
			return filepath.Join(dir, name), err
		}
	}

	return "", fmt.Errorf("unknown module %q", module)
}

func (b Builder) dir(m Module) (string, error) {
	key, err := Key(b.modules(), m, runtime.Version())
	if err != nil {
		return "", err
	}

	return filepath.Join(b.Layout.Cache, "bin", m.Name+"-"+key), nil
}

func (b Builder) modules() string { return filepath.Join(b.Layout.Root, "hack", "seed", "modules") }

func (b Builder) source(m Module) string { return filepath.Join(b.modules(), m.directory()) }

// Operator builds the programs of the operator's image from the checkout and returns their directory. Go's build cache decides
// what is compiled.
func (b Builder) Operator(ctx context.Context) (string, error) {
	return b.CommandDir(), b.OperatorIn(ctx, b.CommandDir())
}

// OperatorIn builds the programs of the operator's image into the directory. It does not change the binaries that a running seed uses.
func (b Builder) OperatorIn(ctx context.Context, dir string) error {
	if _, err := b.buildCommand(ctx, "gardener-extension-etcd-druid", dir, "./cmd/gardener-extension-etcd-druid"); err != nil {
		return err
	}

	// A module of its own: its packages of etcd are not those of the operator. The first versions of the operator did not have it.
	const helper = "cmd/etcd-helper"
	if _, err := os.Stat(filepath.Join(b.Layout.Root, helper)); os.IsNotExist(err) {
		return nil
	}

	_, err := b.buildCommand(ctx, "etcd-helper", dir, "-C", helper, ".")

	return err
}

// At returns the builder of the commands of another checkout.
func (b Builder) At(root string) Builder {
	b.Layout.Root = root

	return b
}

// Plugin builds kubectl-etcd from the checkout and returns the path of the binary.
func (b Builder) Plugin(ctx context.Context) (string, error) {
	return b.buildCommand(ctx, "kubectl-etcd", b.CommandDir(), "./cmd/kubectl-etcd")
}

// CommandDir is the directory of the programs that are built from the checkout.
func (b Builder) CommandDir() string { return filepath.Join(b.Layout.Cache, "bin", "operator") }

// buildCommand builds the package that is the last argument. The arguments before it select the module.
func (b Builder) buildCommand(ctx context.Context, name, dir string, args ...string) (string, error) {
	target := filepath.Join(dir, name)
	args = slices.Insert(slices.Clone(args), len(args)-1, "-o", target+".unfinished")

	if err := b.withProgress(name, func() error {
		return run(b.prepare(exec.CommandContext(ctx, filepath.Join(b.Layout.Root, script), args...), b.Layout.Root))
	}); err != nil {
		return "", fmt.Errorf("building %s: %w", name, err)
	}

	return target, os.Rename(target+".unfinished", target)
}

// GardenerDir returns the directory of the Gardener module in the version of the repository. The seed reads
// CustomResourceDefinitions from it.
func (b Builder) GardenerDir(ctx context.Context) (string, error) {
	return b.moduleDir(ctx, b.Layout.Root, "github.com/gardener/gardener")
}

// KwokDir returns the directory of the module of KWOK. It contains the stages that KWOK simulates.
func (b Builder) KwokDir(ctx context.Context) (string, error) {
	return b.moduleDir(ctx, filepath.Join(b.modules(), Kwok), "sigs.k8s.io/kwok")
}

// moduleDir returns the directory of a Go module that a go.mod requires.
func (b Builder) moduleDir(ctx context.Context, from, module string) (string, error) {
	// `go list` returns the directory only if the module was downloaded.
	if err := b.golang(ctx, from, "mod", "download", module); err != nil {
		return "", err
	}

	output, err := b.command(ctx, from, "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("finding module %s: %w", module, err)
	}

	return strings.TrimSpace(string(output)), nil
}

func (b Builder) golang(ctx context.Context, dir string, args ...string) error {
	return run(b.command(ctx, dir, args...))
}

// run runs the command. The error contains the output.
func run(command *exec.Cmd) error {
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s in %s: %w\n%s", filepath.Base(command.Path), command.Args[1], command.Dir, err, output)
	}

	return nil
}

// command returns a call of go in the directory.
func (b Builder) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	return b.prepare(exec.CommandContext(ctx, "go", args...), dir)
}

// prepare sets the environment in which all programs of the project are built, so that they share one build cache. A
// build must not change the checkout: an incomplete go.mod or go.sum is an error, independent of the user's settings.
func (b Builder) prepare(command *exec.Cmd, dir string) *exec.Cmd {
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false -mod=readonly", "GOWORK=off", compilerGC)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }

	return command
}
