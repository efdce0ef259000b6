// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

// events is a report of gotestsum. Each argument is the action, the test and the output, with one blank between them.
func events(lines ...string) string {
	report := ""

	for _, line := range lines {
		words := append(strings.SplitN(line, " ", 3), "", "")
		encoded, _ := json.Marshal(event{Action: words[0], Package: "x", Test: words[1], Output: words[2], Elapsed: 0}) // strings never fail
		report += string(encoded) + "\n"
	}

	return report
}

// specs is a report of Ginkgo. Each argument is a spec as JSON.
func specs(specs ...string) string {
	return `[{"SuiteDescription": "E2E", "SuiteSucceeded": ` + strconv.FormatBool(!strings.Contains(strings.Join(specs, ""), "failed")) +
		`, "SpecReports": [` + strings.Join(specs, ", ") + `]}]`
}

const (
	passes       = `{"LeafNodeType": "It", "LeafNodeText": "passes", "State": "passed", "RunTime": 2000000000}`
	fails        = `{"LeafNodeType": "It", "LeafNodeText": "fails", "State": "failed", "RunTime": 1000000000, "Failure": {"Message": "no"}}`
	exceedsBound = `{"LeafNodeType": "It", "LeafNodeText": "is [fast]", "State": "failed", "RunTime": 1000000000,
		"Failure": {"Message": "exceeded its bound on a duration: 1.3s"}}`
	isFast = `{"LeafNodeType": "It", "LeafNodeText": "is [fast]", "State": "passed", "RunTime": 1000000000}`
)

// summarize returns the summary of a suite `e2e` with these steps, and the table of its specs. Each step is the exit code, the report and the number of
// the step that it repeats.
func summarize(steps ...[3]string) (text, table string) {
	GinkgoHelper()

	var (
		dir     = GinkgoT().TempDir()
		lines   string
		reports = []string{""} // a step that repeats none
	)

	for i, step := range steps {
		reports = append(reports, filepath.Join(dir, strconv.Itoa(i+1)+".json"))
		repeats, _ := strconv.Atoi(step[2])
		lines += fmt.Sprintf("e2e\tstep %d\t%s\t%s\t%s\n", i+1, step[0], reports[i+1], reports[repeats])

		if step[1] != "" {
			Expect(os.WriteFile(reports[i+1], []byte(step[1]), 0o600)).To(Succeed())
		}
	}

	Expect(os.WriteFile(filepath.Join(dir, "steps.tsv"), []byte(lines), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "suites.tsv"), []byte("e2e\t61\t\nall\t62\t90\n"), 0o600)).To(Succeed())

	text, err := Summary(dir)
	Expect(err).NotTo(HaveOccurred())

	content, err := os.ReadFile(filepath.Join(dir, "specs.tsv"))
	Expect(err).NotTo(HaveOccurred())

	return text, string(content)
}

var _ = DescribeTable("The summary counts", func(exitCode, report, expected string, lines ...string) {
	text, _ := summarize([3]string{exitCode, report})
	for _, line := range lines {
		Expect(text).To(ContainSubstring("\n" + line + "\n"))
	}
	Expect(text).To(HaveSuffix("\n\n" + expected + "\n"))
},
	Entry("each subtest, but not its parent", "0",
		events("run TestA", "run TestB", "run TestA/one", "pass TestA/one", "run TestA/two", "output TestA/two \tx_test.go:4: because\n", "skip TestA/two", "pass TestB", "pass TestA", "pass"),
		"2 passed, 0 failed", "Skipped: x.TestA/two: x_test.go:4: because", "e2e              1m01s   2 passed, 0 failed, 1 skipped", "all              1m02s   2 passed, 0 failed, 1 skipped, 90 s of CPU time"),
	Entry("a failed test once", "1", events("run TestX", "fail TestX", "fail"), "0 passed, 1 failed", "--- FAIL: e2e: x.TestX: "),
	Entry("a test that ends its process", "1", events("run TestX", "fail"), "0 passed, 1 failed", "--- FAIL: e2e: x: "),
	Entry("a package that does not compile", "1", events("start", "fail"), "0 passed, 1 failed", "--- FAIL: e2e: x: "),
	Entry("a step without a test", "0", events("start", "skip"), "0 passed, 1 failed", "--- FAIL: e2e: step 1: no test ran"),
	Entry("a step without a report", "0", "", "0 passed, 1 failed", "--- FAIL: e2e: step 1: no test ran"),
	Entry("a command that fails although its tests pass", "3", events("pass TestX", "pass"), "1 passed, 1 failed", "--- FAIL: e2e: step 1: exit code 3"),
	Entry("a report that was not finished", "130", events("pass TestX", "pass")+`{"Action":`, "1 passed, 1 failed", "--- FAIL: e2e: step 1: unexpected EOF"),
	Entry("the specs of Ginkgo", "1", specs(passes,
		`{"LeafNodeType": "It", "LeafNodeText": "panics", "State": "panicked", "Failure": {"Message": "no\n way", "Location": {"FileName": "/a/b_test.go", "LineNumber": 7}},
			"SpecEvents": [{"SpecEventType": "By", "Message": "step 1"}, {"SpecEventType": "By", "Message": "step 2"}, {"SpecEventType": "Node"}]}`,
		`{"LeafNodeType": "It", "LeafNodeText": "is pending", "State": "pending"}`,
		`{"LeafNodeType": "It", "LeafNodeText": "skips", "State": "skipped", "NumAttempts": 1, "Failure": {"Message": "no seed"}}`,
		`{"LeafNodeType": "It", "LeafNodeText": "has another label", "State": "skipped"}`,
		`{"LeafNodeType": "BeforeSuite", "State": "passed"}`,
		`{"LeafNodeType": "AfterSuite", "State": "failed"}`),
		"1 passed, 2 failed", `--- FAIL: e2e: panics: b_test.go:7: step "step 2": no way`, "--- FAIL: e2e: AfterSuite: ", "Skipped: is pending: pending", "Skipped: skips: no seed"),
	Entry("a suite of Ginkgo that fails as a whole", "1", `[{"SuiteDescription": "E2E", "SpecialSuiteFailureReasons": ["timed out"]}]`, "0 passed, 1 failed", "--- FAIL: e2e: E2E: [timed out]"),
)

var _ = Describe("The summary", func() {
	It("names a scenario that passed when it was repeated, with its first figure, and counts each scenario once", func() {
		text, _ := summarize([3]string{"1", specs(passes, exceedsBound)}, [3]string{"0", specs(isFast), "1"})
		Expect(text).To(ContainSubstring("\nRepeated once: is [fast]: exceeded its bound on a duration: 1.3s\n"))
		Expect(text).To(HaveSuffix("\n2 passed, 0 failed\n"))
	})

	It("counts both failures of a scenario whose repetition failed", func() {
		text, _ := summarize([3]string{"1", specs(passes, exceedsBound)}, [3]string{"1", specs(exceedsBound), "1"})
		Expect(text).NotTo(ContainSubstring("Repeated"))
		Expect(text).To(HaveSuffix("\n1 passed, 2 failed\n"))
	})

	It("keeps the failure of a scenario that passed in another step", func() {
		text, _ := summarize([3]string{"1", specs(exceedsBound)}, [3]string{"0", specs(isFast)})
		Expect(text).To(HaveSuffix("\n1 passed, 1 failed\n"))
	})

	It("contains the longest specs, and the table has all, with the shares of set-up and clean-up", func() {
		text, table := summarize([3]string{"0", specs(passes, `{"LeafNodeType": "It", "LeafNodeText": "creates", "State": "passed", "StartTime": "2026-01-01T00:00:00Z", "RunTime": 10000000000,
			"ReportEntries": [{"Name": "set-up", "Time": "2026-01-01T00:00:04Z"}],
			"SpecEvents": [{"SpecEventType": "Node (End)", "NodeType": "DeferCleanup (Each)", "Duration": 3000000000}]}`)})
		Expect(text).To(HavePrefix("The longest specs (seconds, share of set-up, share of clean-up); specs.tsv has all:\n    10  40%  30%  e2e: creates\n     2   0%   0%  e2e: passes\n\n"))
		Expect(table).To(Equal("seconds\tset-up\tclean-up\tstate\tsuite\tspec\n10.0\t4.0\t3.0\tpassed\te2e\tcreates\n2.0\t0.0\t0.0\tpassed\te2e\tpasses\n"))
	})
})

var _ = DescribeTable("The scenario that is repeated", func(expected string, reports ...string) {
	path := filepath.Join(GinkgoT().TempDir(), "report.json")
	Expect(os.WriteFile(path, []byte(specs(reports...)), 0o600)).To(Succeed())
	Expect(Repeatable(path)).To(Equal(expected))
},
	Entry("is the one that failed its bound", `is \[fast\]`, passes, exceedsBound),
	Entry("is the whole container of an ordered spec", "three members", strings.Replace(exceedsBound, "{", `{"IsInOrderedContainer": true, "ContainerHierarchyTexts": ["three members"],`, 1)),
	Entry("is none if all pass", "", passes),
	Entry("is none if another one failed", "", fails, exceedsBound),
	Entry("is none if two failed their bound", "", exceedsBound, exceedsBound),
	Entry("is none if it failed something else", "", fails),
	Entry("is none if it also failed its clean-up", "", strings.Replace(exceedsBound, "{", `{"AdditionalFailures": [{"State": "failed", "Failure": {"Message": "no"}}],`, 1)),
)

var _ = Describe("run.sh", func() {
	var out *gbytes.Buffer

	// start starts the named suites of the file with the content.
	start := func(content string, names ...string) *exec.Cmd {
		GinkgoHelper()

		folder := GinkgoT().TempDir()
		file := filepath.Join(folder, "suites.sh")
		Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())

		out = gbytes.NewBuffer()
		command := exec.Command("./run.sh", names...)
		command.Env = append(os.Environ(), "TESTRUN_SUITES="+file, "TMPDIR="+folder)
		command.Stdout, command.Stderr = io.MultiWriter(out, GinkgoWriter), GinkgoWriter
		Expect(command.Start()).To(Succeed())

		return command
	}

	It("continues after a failed step and ends with the counts", func() {
		Expect(start("gate_suites=(a b)\na_runs=first b_runs=second c_runs=third\na() { command_step false; command_step true; }\nb() { command_step true; }\nc() { command_step false; }\n").Wait()).NotTo(Succeed())
		Expect(string(out.Contents())).To(MatchRegexp(`(?s)=== a: first.*=== b: second.*\n--- FAIL: a: false: exit code 1\n\na +0m\d\ds   1 passed, 1 failed\nb +0m\d\ds   1 passed, 0 failed\nall +0m\d\ds   2 passed, 1 failed, \d+ s of CPU time\n\n2 passed, 1 failed\n$`))
	})

	It("runs the suites that are named, and succeeds if all tests do", func() {
		Expect(start("a_runs=first b_runs=second\na() { command_step false; }\nb() { command_step true; }\n", "b").Wait()).To(Succeed())
		Expect(string(out.Contents())).To(HaveSuffix("\n1 passed, 0 failed\n"))
	})

	It("runs a suite in the background next to others, which can wait for it", func() {
		content := `background_suites=(a)
a_runs=first b_runs=second
a() { until [[ -e $logs/b ]]; do :; done; command_step echo "a was here"; command_step false; }
b() { touch "$logs/b"; wait_for_background; command_step grep -c "a was here" "$logs/background.log"; }
`
		Expect(start(content, "a", "b").Wait()).NotTo(Succeed())
		Expect(string(out.Contents())).To(MatchRegexp(`(?s)In the background.*: a\n\n=== b: second\n\n=== a: first\na was here\n1\n.*--- FAIL: a: false: exit code 1\n.*\n2 passed, 1 failed\n$`))
	})

	It("keeps KUBECONFIG only for suites that are named", func() {
		GinkgoT().Setenv("KUBECONFIG", "/users-cluster")
		content := "gate_suites=(a)\nall_suites=(a)\na_runs=first\na() { echo \"cluster: ${KUBECONFIG:-none}\"; command_step true; }\n"

		for _, set := range [][]string{nil, {"all"}} {
			Expect(start(content, set...).Wait()).To(Succeed())
			Expect(string(out.Contents())).To(ContainSubstring("cluster: none\n"))
		}
		Expect(start(content, "a").Wait()).To(Succeed())
		Expect(string(out.Contents())).To(ContainSubstring("cluster: /users-cluster\n"))
	})

	It("refuses a suite that does not exist", func() {
		Expect(start("a_runs=first\na() { :; }\n", "a", "run_suites").Wait()).NotTo(Succeed())
		Expect(out.Contents()).To(BeEmpty())
	})

	It("counts a failed set-up, and does not run the steps after it", func() {
		Expect(start("a_runs=first\na() { false || failed 'set-up: seed' || return; command_step true; }\n", "a").Wait()).NotTo(Succeed())
		Expect(string(out.Contents())).To(ContainSubstring("--- FAIL: a: set-up: seed: exit code 1\n"))
		Expect(string(out.Contents())).To(HaveSuffix("\n0 passed, 1 failed\n"))
	})

	It("counts packages that pass, fail, crash or do not compile, and shows why", func() {
		root := GinkgoT().TempDir()
		for path, content := range map[string]string{
			"go.mod":              "module example.com/x\n\ngo 1.26\n",
			"passes/x_test.go":    "package x\n\nimport \"testing\"\n\nfunc TestFine(*testing.T) {}\n",
			"skips/x_test.go":     "package x\n\nimport \"testing\"\n\nfunc TestSkip(t *testing.T) { t.Skip(\"no seed\") }\n",
			"panics/x_test.go":    "package x\n\nimport \"testing\"\n\nfunc TestPanic(*testing.T) { panic(\"no way\") }\n",
			"exits/x_test.go":     "package x\n\nimport (\n\"os\"\n\"testing\"\n)\n\nfunc TestMain(*testing.M) { os.Exit(3) }\n",
			"undefined/x_test.go": "package x\n\nfunc f() { undefined() }\n",
			"untested/x.go":       "package x\n",
		} {
			Expect(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(root, path), []byte(content), 0o600)).To(Succeed())
		}

		Expect(start("a_runs=first\na() { go_test "+root+" ./...; }\n", "a").Wait()).NotTo(Succeed())
		text := string(out.Contents())
		Expect(text).To(And(ContainSubstring("undefined: undefined"), ContainSubstring("no way")))
		for _, name := range []string{"exits", "panics.TestPanic", "undefined"} {
			Expect(text).To(ContainSubstring("\n--- FAIL: a: example.com/x/" + name + ": \n"))
		}
		Expect(text).To(MatchRegexp(`\nSkipped: example.com/x/skips.TestSkip: .*no seed`))
		Expect(text).To(HaveSuffix("\n1 passed, 3 failed\n"))
	})

	It("repeats a scenario that failed its bound, alone and only once in a run", func() {
		repeatable := filepath.Join(GinkgoT().TempDir(), "repeatable.json")
		Expect(os.WriteFile(repeatable, []byte(specs(exceedsBound)), 0o600)).To(Succeed())
		Expect(os.WriteFile(repeatable+".repeated", []byte(specs(isFast)), 0o600)).To(Succeed())

		// The repetition passes.
		content := "ginkgo() { start_step; if [[ -n ${repeats:-} ]]; then echo \"again: $*\"; cp " + repeatable + ".repeated $report; else cp " + repeatable + " $report; fi; record step 0 $report; }"
		Expect(start("a_runs=first\na() { "+content+"; ginkgo; repeat_bound x; }\n", "a").Wait()).To(Succeed())
		Expect(string(out.Contents())).To(And(ContainSubstring(`again: --procs=1 --focus=^is \[fast\] x`), HaveSuffix("\n1 passed, 0 failed\n")))

		Expect(start("a_runs=first\na() { "+content+"; ginkgo; repeat_bound x; ginkgo; repeat_bound x; }\n", "a").Wait()).NotTo(Succeed())
		Expect(string(out.Contents())).To(HaveSuffix("\n1 passed, 1 failed\n"))
	})

	DescribeTable("lets the processes of a test clean up when it is interrupted, and runs no other", func(content string, suites []string, counts string) {
		command := start(content+"a_runs=first b_runs=second\na() { command_step sh -c 'trap : INT; sh -c \"echo started; exec sleep 600\"; echo cleaned'; command_step echo later; }\nb() { command_step echo later; }\nc() { wait_for_background; }\n", suites...)
		Eventually(out).Should(gbytes.Say("started"))
		Expect(command.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(command.Wait()).NotTo(Succeed())
		Expect(string(out.Contents())).To(And(ContainSubstring("\ncleaned\n"), Not(ContainSubstring("later")), ContainSubstring("--- FAIL: a: interrupted: exit code 1\n")))
		Expect(string(out.Contents())).To(HaveSuffix("\n" + counts + "\n"))
	},
		Entry("in the foreground", "", []string{"a", "b"}, "1 passed, 1 failed"),
		Entry("in the background", "background_suites=(a b) c_runs=third\n", []string{"a", "b", "c"}, "1 passed, 2 failed"),
	)
})

var _ = Describe("suites.sh", func() {
	DescribeTable("uses", func(kubeconfig, wrapper, expected string) {
		suites, err := os.ReadFile("suites.sh")
		Expect(err).NotTo(HaveOccurred())

		command := exec.Command("bash", "-c", string(suites)+`
failed() { echo "failed: $1"; return 1; }
seed() { case $1 in kubeconfig) echo /seed ;; env) : ;; *) echo "seed $*" ;; esac; }
kubectl() { echo context; }
start=0
start_cluster`)
		command.Dir = GinkgoT().TempDir()
		// `make test-all SIDECAR=...` also sets the variables of this test.
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "WRAPPER="+wrapper, "SIDECAR=", "WRAPPER_NEXT=", "SIDECAR_NEXT=")
		out, _ := command.CombinedOutput() // a failed set-up is one of the cases
		Expect(string(out)).To(ContainSubstring(expected))
	},
		Entry("the local seed without KUBECONFIG", "", "", "Cluster: the local seed\nseed build\nseed up --example=false --volumes-in-memory\n"),
		Entry("the local seed with the example", "", "", "of those that limit gaps\nseed up --volumes-in-memory\n"),
		Entry("the local seed with its own KUBECONFIG", "/seed", "", "Cluster: the local seed\n"),
		Entry("the local seed with the image of the user", "", "a b.tar", "seed up --volumes-in-memory --wrapper=a b.tar\n"),
		Entry("the cluster of KUBECONFIG", "/other", "", "Cluster: context of KUBECONFIG=/other"),
		Entry("no image of the user on another cluster", "/other", "a.tar", "failed: set-up: WRAPPER and SIDECAR are for the local seed"),
	)

	DescribeTable("runs fewer scenarios at the same time on a machine that starts the seed slowly", func(seconds, expected string) {
		suites, err := os.ReadFile("suites.sh")
		Expect(err).NotTo(HaveOccurred())
		out, err := exec.Command("bash", "-c", string(suites)+"\nSEED_AUDIT_LOG=\nlimit_processes "+seconds+"\nginkgo() { printf '%s ' \"$1\"; }\nFOCUS=\nrepeat_bound() { :; }\nwait_for_background() { :; }\nscenarios gate").Output()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(out)).To(HaveSuffix(expected))
	},
		Entry("a fast one", "12", "\n--procs=9 --procs=3 "),
		Entry("a slow one", "20", "\n--procs=6 --procs=2 "),
		Entry("one on which the seed already runs", "1", "\n--procs=9 --procs=3 "),
	)

	DescribeTable("gives the programs of the local seed less CPU time while scenarios run that limit gaps", func(function, auditLog, focus, expected string) {
		suites, err := os.ReadFile("suites.sh")
		Expect(err).NotTo(HaveOccurred())

		command := exec.Command("bash", "-c", string(suites)+"\nstart_seed() { :; }\nfind_assets() { return 1; }\ngo_test() { :; }\nseed() { echo \"$*\"; }\nginkgo() { echo \"$1\"; }\nrepeat_bound() { :; }\nwait_for_background() { :; }\n"+function)
		command.Env = append(os.Environ(), "SEED_AUDIT_LOG="+auditLog, "FOCUS="+focus)
		out, err := command.Output()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(out)).To(Equal(expected))
	},
		Entry("with all scenarios", "scenarios gate", "/audit.log", "", "program-weight 1\n--procs=9\nprogram-weight 0.25\n--procs=3\n"),
		Entry("with those that the user selects", "scenarios gate", "/audit.log", "name", "program-weight 0.25\n--procs=2\n"),
		Entry("except on another cluster", "scenarios gate", "", "", "--procs=9\n--procs=3\n"),
		Entry("but not in the step of the long scenarios", "long", "/audit.log", "", strings.Repeat("program-weight 1\n--procs=9\nprogram-weight 0.25\n--procs=3\n", 2)+"program-weight 1\n--procs=4\n"),
	)

	DescribeTable("runs an end-to-end test", func(suite, focus string, labels []string, expected int) {
		suites, err := os.ReadFile("suites.sh")
		Expect(err).NotTo(HaveOccurred())

		command := exec.Command("bash", "-c", string(suites)+"\nstart_cluster() { :; }\nbench_step() { :; }\nrepeat_bound() { :; }\nwait_for_background() { :; }\nginkgo() { printf '%s\\n' \"$@\" | sed -n 's/^--label-filter=//p'; }\n"+suite)
		command.Env = append(os.Environ(), "SEED_AUDIT_LOG=", "FOCUS="+focus)
		out, err := command.Output()
		Expect(err).NotTo(HaveOccurred())

		steps := 0

		for line := range strings.Lines(string(out)) {
			filter, err := types.ParseLabelFilter(strings.TrimSpace(line))
			Expect(err).NotTo(HaveOccurred())

			if filter(labels) {
				steps++
			}
		}

		Expect(steps).To(Equal(expected))
	},
		Entry("in one step", "e2e", "", nil, 1),
		Entry("with the label quiet in one step", "e2e", "", []string{"quiet"}, 1),
		Entry("with the label gate in one step", "e2e", "", []string{"gate"}, 1),
		Entry("with the label gate in one step of the gate", "gate", "", []string{"gate"}, 1),
		Entry("with the labels gate and quiet in one step of the gate", "gate", "", []string{"gate", "quiet"}, 1),
		Entry("without the label gate not in the gate", "gate", "", []string{"quiet"}, 0),
		Entry("with the label long in no step", "e2e", "", []string{"long"}, 0),
		Entry("with both labels in no step", "e2e", "", []string{"long", "quiet"}, 0),
		Entry("in one step if the user selects it", "e2e", "name", nil, 1),
		Entry("with the label quiet in one step if the user selects it", "e2e", "name", []string{"quiet"}, 1),
	)

	It("runs each package that has tests in one suite", func() {
		root, err := filepath.Abs(filepath.Join("..", ".."))
		Expect(err).NotTo(HaveOccurred())
		suites, err := os.ReadFile("suites.sh") // by this process, so that Go's cache of results depends on it
		Expect(err).NotTo(HaveOccurred())

		// The steps print the folders of the packages instead.
		command := exec.Command("bash", "-c", string(suites)+`
command_step() { :; }
failed() { echo "$1"; }
find_assets() { :; }
start_seed() { :; }
weigh_programs() { :; }
repeat_bound() { :; }
wait_for_background() { :; }
start_cluster() { :; }
start_gardener() { :; }
seed() { :; }
go_test() { mapfile -t args < <(printf '%s\n' "${@:2}" | grep -v ^-) && go list -C "$1" -e -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' "${args[@]}"; }
ginkgo() { realpath "${!#}"; }
for suite in "${all_suites[@]}" gardener; do [[ $suite == random ]] || "$suite" | sort -u; done`) // random repeats unit tests
		command.Dir, command.Stderr = root, GinkgoWriter
		out, err := command.Output()
		Expect(err).NotTo(HaveOccurred())

		Expect(strings.Fields(string(out))).To(ConsistOf(foldersWithTests(root)))
	})
})

func foldersWithTests(root string) []string {
	GinkgoHelper()

	var folders []string

	Expect(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go") && !slices.Contains(folders, filepath.Dir(path)):
			folders = append(folders, filepath.Dir(path))
		}

		return nil
	})).To(Succeed())

	return folders
}
