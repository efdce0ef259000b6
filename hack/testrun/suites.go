// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

// A Suite is one row of the table below.
type Suite struct {
	// Name is what the command line calls it.
	Name string
	// What says in a few words what runs.
	What string
	// OnRequest keeps it out of a run that names no suite.
	OnRequest bool
	// Setups run first, in this order. The steps run only when all of them have succeeded.
	Setups []Setup
	// Steps run in this order, all of them, also after one has failed.
	Steps []Step
}

// A Setup is a command that the steps need to have run. What it prints on standard output can become part of their
// environment; it is then not shown.
type Setup struct {
	Command []string
	// As names the variable that gets the last line. Empty for none.
	As string
	// Exports takes each line of the form export NAME="value" or export NAME="value""$OTHER".
	Exports bool
}

// A Step is one command whose outcome is counted.
type Step struct {
	// Dir is where it runs, relative to the root. Empty means the root.
	Dir string
	// Count says how the outcome is read.
	Count Counter
	// Command and its arguments. For a GoTest they are what follows `go test -json`, for a Ginkgo what follows `ginkgo`.
	Command []string
	// Packages keeps those packages of the module that it returns true for; nil keeps all. The path is relative to the
	// module. Used by a GoTest only, which gets the packages as last arguments.
	Packages func(path string) bool
}

// Counter says how the outcome of a step is counted.
type Counter int

const (
	// ExitCode counts the whole command as one test.
	ExitCode Counter = iota
	// GoTest counts the tests of Go packages, and each spec where a package uses Ginkgo.
	GoTest
	// Ginkgo counts specs that Ginkgo's own command runs in several processes at once.
	Ginkgo
)

func suites() []Suite {
	return []Suite{
		{
			Name: "check", What: "linters and import arrows, generated files up to date",
			Steps: []Step{
				{Command: []string{"make", "--no-print-directory", "check"}},
				{Command: []string{"make", "--no-print-directory", "check-generate"}},
			},
		},
		{
			Name: "unit", What: "pure packages, goldens, chart, alerts, docs, and the tools of the repository",
			Steps: []Step{
				{Count: GoTest, Packages: isUnit},
				{Count: GoTest, Dir: "hack/seed/modules/etcd-wrapper"},
				// -count=1: the tests read the Dockerfile and the alerts outside of the modules, and the result cache
				// of Go ignores these files.
				{Count: GoTest, Dir: "hack/seed", Command: []string{"-count=1"}},
				{Count: GoTest, Dir: "test/rules", Command: []string{"-count=1"}},
			},
		},
		{
			Name: "integration", What: "controllers against a kube-apiserver (builds it when the cache has none)",
			Setups: []Setup{{Command: seed("assets"), As: "KUBEBUILDER_ASSETS"}},
			Steps: []Step{
				// Most of the time goes into waiting for controllers, so that two packages run at the same time.
				{Count: GoTest, Command: []string{"-count=1", "-p=2", "-timeout=20m"}, Packages: isIntegration},
				{Count: GoTest, Command: []string{"-count=1", "-timeout=20m"}, Packages: isMeasurement},
			},
		},
		{
			Name: "e2e", What: "end-to-end tests on the local seed (starts it if it does not run)",
			Setups: []Setup{{Command: seed("up")}, {Command: seed("env"), Exports: true}},
			// Ginkgo orders the files of the suite by this seed. With it, the migration test, which replaces the operator, runs last.
			Steps: []Step{{Count: Ginkgo, Command: []string{"--procs=6", "--seed=7541", "--timeout=75m", "--label-filter=!soak", "./test/e2e"}}},
		},
		{
			Name: "soak", What: "long repetitions on the local seed", OnRequest: true,
			Setups: []Setup{{Command: seed("up")}, {Command: seed("env"), Exports: true}},
			Steps:  []Step{{Count: Ginkgo, Command: []string{"--procs=4", "--timeout=6h", "--label-filter=soak", "./test/e2e"}}},
		},
	}
}

func seed(args ...string) []string {
	return append([]string{"go", "run", "-C", "hack/seed", "."}, args...)
}
