// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator with many Etcds. The script run.sh starts the cluster for it, see docs/operations/scale.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/run"
)

// resultFile is the name of the file with the result of a run, in its own directory.
const resultFile = "result.json"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := execute(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func execute(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "run":
		return measure(ctx, args[1:])
	case len(args) == 2 && args[0] == "report":
		return writeReport(args[1])
	default:
		return errors.New("usage: bench run [FLAGS], or bench report DIRECTORY")
	}
}

// measure executes one run, and writes its result.
func measure(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	o := run.Options{
		Log: zap.New(zap.UseDevMode(true)), Kubeconfig: os.Getenv("KUBECONFIG"), AuditLog: os.Getenv("SEED_AUDIT_LOG"),
		Pids: os.Getenv("BENCH_PIDS"), PodCIDR: os.Getenv("BENCH_POD_CIDR"),
	}
	logf.SetLogger(o.Log)
	commit := flags.String("commit", "", "commit of the operator")
	machine := flags.String("machine", "", "description of the machine")
	flags.IntVar(&o.Etcds, "etcds", 20, "number of Etcds")
	flags.StringVar(&o.Fleet, "fleet", run.FleetPlaintext, "kind of the Etcds: "+run.FleetPlaintext+" or "+run.FleetTLS)
	flags.StringVar(&o.Operator, "operator", "bin/gardener-extension-etcd-druid", "path of the operator's program")
	flags.StringVar(&o.Dir, "out", "bin/bench", "directory for the result, the profiles and the log of the operator")
	flags.DurationVar(&o.Idle, "idle", 5*time.Minute, "duration of the phases without changes")
	flags.DurationVar(&o.Quiet, "quiet", 20*time.Second, "time without writes after which a phase has ended")
	flags.DurationVar(&o.Timeout, "timeout", time.Hour, "longest duration of a phase")
	flags.IntVar(&o.Samples, "samples", 100, "number of single changes")
	flags.BoolVar(&o.NodeLoss, "node-loss", true, "measure the loss of a node")
	flags.BoolVar(&o.Profiles, "profiles", true, "write CPU profiles of the operator")
	check := flags.Bool("check", false, "fail if the operator writes in a phase without changes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return fmt.Errorf("creating the output directory: %w", err)
	}
	result, err := run.Run(ctx, o)
	result.Commit, result.Machine = *commit, *machine
	fmt.Print(report.Markdown([]report.Result{result}))
	if *check {
		err = errors.Join(err, run.CheckIdle(result))
	}
	content, marshalErr := json.MarshalIndent(result, "", "  ")

	return errors.Join(err, marshalErr, os.WriteFile(filepath.Join(o.Dir, resultFile), append(content, '\n'), 0o600))
}

// writeReport reads the results in the directories of a directory, and writes their tables into it.
func writeReport(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", resultFile))
	if err != nil {
		return err
	}
	var results []report.Result
	for _, file := range files {
		content, err := os.ReadFile(file) // #nosec G304 -- a file in the directory of the user
		if err != nil {
			return err
		}
		var result report.Result
		if err := json.Unmarshal(content, &result); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		results = append(results, result)
	}

	return os.WriteFile(filepath.Join(dir, "scale.md"), []byte(report.Markdown(results)), 0o600)
}
