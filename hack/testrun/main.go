// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The testrun command runs the suites of the repository one after the other, and continues after failures. It ends with
// the duration of each suite and the total counts. It knows how tests are started and counted, not what they test.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the named suites, or the default ones if no name is given.
func run(ctx context.Context, names []string) error {
	root, err := findRoot()
	if err != nil {
		return err
	}

	chosen, err := choose(suites(), names)
	if err != nil {
		return err
	}

	logs, err := os.MkdirTemp("", "testrun-")
	if err != nil {
		return err
	}

	var (
		runner = Runner{Root: root, Logs: logs, Out: os.Stdout}
		total  Result
		rows   []Row
	)

	for _, suite := range chosen {
		fmt.Printf("\n=== %s: %s\n", suite.Name, suite.What)

		start := time.Now()
		result := runner.Run(ctx, suite)
		rows = append(rows, Row{Name: suite.Name, Took: time.Since(start), Result: result})
		total.Add(result)

		if ctx.Err() != nil {
			total.Add(Result{Failed: []string{"interrupted in suite " + suite.Name}})
			break
		}
	}

	fmt.Printf("\nLogs of the suites: %s\n", logs)
	WriteSummary(os.Stdout, rows, total)

	if len(total.Failed) > 0 || total.Passed == 0 {
		// The last line on standard output stays the line of counts; make reports the exit code.
		os.Exit(1)
	}

	return nil
}

// choose returns the suites of the given names in the order of the table. Without names it is all that run by default.
func choose(all []Suite, names []string) ([]Suite, error) {
	var chosen []Suite

	known := make([]string, 0, len(all))
	wanted := map[string]bool{}

	for _, name := range names {
		wanted[name] = true
	}

	for _, suite := range all {
		known = append(known, suite.Name)

		if wanted[suite.Name] || len(names) == 0 && !suite.OnRequest {
			chosen = append(chosen, suite)
		}

		delete(wanted, suite.Name)
	}

	for name := range wanted {
		return nil, fmt.Errorf("no suite is called %q; there are %s", name, strings.Join(known, ", "))
	}

	return chosen, nil
}

// findRoot returns the folder of the repository, at or above the current one.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".golangci.yaml")); err == nil {
			return dir, nil
		}
	}

	return "", errors.New("not inside a checkout of the repository: no .golangci.yaml here or above")
}
