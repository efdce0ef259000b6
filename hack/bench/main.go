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
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/run"
)

// resultFile is the name of the file with the result of a run, in its own directory.
const resultFile = "result.json"

func main() {
	log := zap.New(zap.UseDevMode(true))
	logf.SetLogger(log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := execute(ctx, os.Args[1:], log); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func execute(ctx context.Context, args []string, log logr.Logger) error {
	if len(args) == 0 {
		return errors.New("expected the command run or report")
	}
	switch args[0] {
	case "run":
		return measure(ctx, args[1:], log)
	case "report":
		return writeReport(args[1:])
	default:
		return fmt.Errorf("unknown command %q; the commands are run and report", args[0])
	}
}

func measure(ctx context.Context, args []string, log logr.Logger) error {
	// The networks of the cluster are on this machine, where no proxy can reach them.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	o := run.Options{
		Log: log, Kubeconfig: os.Getenv("KUBECONFIG"), AuditLog: os.Getenv("SEED_AUDIT_LOG"), Pids: os.Getenv("BENCH_PIDS"), PodCIDR: os.Getenv("BENCH_POD_CIDR"),
	}
	commit := flags.String("commit", "", "commit of the operator")
	machine := flags.String("machine", "", "description of the machine")
	flags.IntVar(&o.Etcds, "etcds", 20, "number of Etcds")
	flags.StringVar(&o.Fleet, "fleet", run.FleetPlaintext, "kind of the Etcds: "+run.FleetPlaintext+" or "+run.FleetTLS)
	flags.StringVar(&o.Operator, "operator", "bin/gardener-extension-etcd-druid", "path of the operator's program")
	flags.StringVar(&o.Dir, "out", "bin/bench", "directory for the result, the profiles and the log of the operator")
	flags.IntVar(&o.MembersOfNode, "members-of-node", 100, "number of members on a node")
	flags.DurationVar(&o.Idle, "idle", 5*time.Minute, "duration of the phases without changes")
	flags.DurationVar(&o.Quiet, "quiet", 20*time.Second, "time without writes after which a phase has ended")
	flags.DurationVar(&o.MaxQuietWait, "max-quiet-wait", 3*time.Minute, "longest wait for the end of a phase")
	flags.DurationVar(&o.Timeout, "timeout", time.Hour, "longest duration of a phase")
	flags.IntVar(&o.Samples, "samples", 100, "number of single changes")
	flags.BoolVar(&o.NodeLoss, "node-loss", true, "measure the loss of a node")
	check := flags.Bool("check", false, "fail if the operator writes in a phase without changes")
	flags.BoolVar(&o.Profiles, "profiles", true, "write CPU profiles of the operator")
	if err := flags.Parse(args); err != nil {
		return err
	}
	result, err := run.Run(ctx, o)
	result.Commit, result.Machine = *commit, *machine
	content, marshalErr := json.MarshalIndent(result, "", "  ")
	if marshalErr != nil {
		return errors.Join(err, marshalErr)
	}
	fmt.Print(report.Markdown([]report.Result{result}))
	if *check {
		err = errors.Join(err, run.CheckIdle(result))
	}

	return errors.Join(err, os.WriteFile(filepath.Join(o.Dir, resultFile), append(content, '\n'), 0o600))
}

// writeReport reads all results below a directory, and writes the pages into it.
func writeReport(args []string) error {
	if len(args) != 1 {
		return errors.New("expected the directory with the results")
	}
	var results []report.Result
	err := filepath.WalkDir(args[0], func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != resultFile {
			return err
		}
		content, err := os.ReadFile(path) // #nosec G122 G304 -- a file in the directory of the user
		if err != nil {
			return err
		}
		var result report.Result
		if err := json.Unmarshal(content, &result); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		results = append(results, result)

		return nil
	})
	if err != nil {
		return err
	}
	page, err := report.HTML(results)
	if err != nil {
		return err
	}
	markdown := report.Markdown(results)
	fmt.Print(markdown)

	return errors.Join(
		os.WriteFile(filepath.Join(args[0], "scale.md"), []byte(markdown), 0o600),
		os.WriteFile(filepath.Join(args[0], "scale.html"), []byte(page), 0o600),
	)
}
