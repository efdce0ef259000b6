// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
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

// Ensure builds the named modules that the cache does not contain, and then the commands of the checkout if operator is true. A module
// appears in the cache atomically, so that the cache never contains an interrupted build.
func (b Builder) Ensure(ctx context.Context, operator bool, names ...string) error {
	missing, err := b.missing(names)
	if err != nil {
		return err
	}

	var steps plan

	if len(missing) > 0 {
		unlock, err := b.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()

		// Another command may have built some of them while this one waited for the lock.
		if missing, err = b.missing(names); err != nil {
			return err
		}

		steps = b.plan(missing)
	}

	if operator {
		steps[0] = append(steps[0], b.commands(b.Layout.Root, b.CommandDir())...)
	}

	if len(missing) > 0 {
		b.Out.Println("%s; Go keeps each compiled package, so that an interrupted build continues", steps.describe(new(progressOf)))

		ctx, cancel := context.WithCancel(ctx)
		defer cancel()

		go b.count(ctx, steps)
	}

	return b.run(ctx, steps)
}

// Operator builds the operator, etcd-helper and kubectl-etcd of the checkout at root into the directory. Go's build cache decides what is
// compiled.
func (b Builder) Operator(ctx context.Context, root, dir string) error {
	return b.run(ctx, plan{b.commands(root, dir)})
}

// CommandDir is the directory of the programs that are built from the checkout.
func (b Builder) CommandDir() string { return filepath.Join(b.Layout.Cache, "bin", "operator") }

// missing returns the named modules that the cache does not contain.
func (b Builder) missing(names []string) ([]Module, error) {
	var missing []Module

	for _, m := range Catalogue() {
		if !slices.Contains(names, m.Name) {
			continue
		}

		dir, err := b.dir(m)
		if err != nil {
			return nil, err
		}

		if _, err := os.Stat(dir); err != nil {
			missing = append(missing, m)
		}
	}

	return missing, nil
}

// lock waits until no other command builds, and then removes the remains of interrupted builds.
func (b Builder) lock(ctx context.Context) (unlock func(), err error) {
	dir := b.bin()
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

// install moves the programs of the module from the directory of its build into the cache, and removes other builds of the module.
// Programs that run from them continue to run.
func (b Builder) install(m Module, built string) error {
	temporary := filepath.Join(built, m.Name+".programs")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		return err
	}

	for name, pkg := range m.Programs {
		if err := os.Rename(filepath.Join(built, m.executable(pkg)), filepath.Join(temporary, name)); err != nil {
			return err
		}
	}

	target, err := b.dir(m)
	if err != nil {
		return err
	}

	if err := os.Rename(temporary, target); err != nil {
		return err
	}

	others, _ := filepath.Glob(filepath.Join(b.bin(), m.Name+"-"+strings.Repeat("[0-9a-f]", keyLength)))
	for _, other := range others {
		if other != target {
			_ = os.RemoveAll(other) // an error costs only disk space
		}
	}

	return nil
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

	return filepath.Join(b.bin(), m.Name+"-"+key), nil
}

func (b Builder) bin() string { return filepath.Join(b.Layout.Cache, "bin") }

func (b Builder) modules() string { return filepath.Join(b.Layout.Root, "hack", "seed", "modules") }

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
	if output, err := b.golang(ctx, from, "mod", "download", module).CombinedOutput(); err != nil {
		return "", fmt.Errorf("downloading module %s: %w\n%s", module, err, output)
	}

	output, err := b.golang(ctx, from, "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("finding module %s: %w", module, err)
	}

	return strings.TrimSpace(string(output)), nil
}

// golang returns a call of go in the directory.
func (b Builder) golang(ctx context.Context, dir string, args ...string) *exec.Cmd {
	return prepare(exec.CommandContext(ctx, "go", args...), dir)
}

// prepare sets the environment in which all programs of the project are built, so that they share one build cache. A
// build must not change the checkout: an incomplete go.mod or go.sum is an error, independent of the user's settings.
func prepare(command *exec.Cmd, dir string) *exec.Cmd {
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false -mod=readonly", "GOWORK=off", compilerGC)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }

	return command
}
