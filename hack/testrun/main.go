// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The testrun command reads the reports of gotestsum and Ginkgo that run.sh collects in a directory. It starts no tests.
//
//	testrun summary DIRECTORY    writes specs.tsv, and prints the longest specs, the failed tests, the suites and the counts
//	testrun repeatable REPORT    prints the --focus of the one scenario that failed only its bound on a duration
package main

import (
	"fmt"
	"os"
)

func main() {
	run := map[string]func(string) (string, error){"summary": Summary, "repeatable": Repeatable}
	if len(os.Args) != 3 || run[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: testrun summary DIRECTORY | testrun repeatable REPORT")
		os.Exit(2)
	}

	text, err := run[os.Args[1]](os.Args[2])
	fmt.Print(text)

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
