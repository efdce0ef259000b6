// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
		encoded, _ := json.Marshal(event{Action: words[0], Package: "x", Test: words[1], Output: words[2]}) // four strings never fail
		report += string(encoded) + "\n"
	}

	return report
}

const specsOfX = "output TestX P [PENDING]\nthing pends\nx_test.go:5\n\nSummarizing 1 Failure:\n  \x1b[38;5;9m[FAIL]\x1b[0m \x1b[0mthing \x1b[1m[It] fails\x1b[0m\n" +
	"\x1b[1mFAIL!\x1b[0m -- \x1b[1m1 Passed\x1b[0m | 1 Failed | 2 Flaked | 1 Pending | 1 Skipped\n"

var _ = DescribeTable("The counts of a report", func(exitCode, report string, expected Result) {
	Expect(Count([]byte(report), "step", exitCode)).To(Equal(expected))
},
	Entry("each spec of a function that runs Ginkgo", "1", events(specsOfX, "fail TestX", "fail"), Result{
		Passed: 1, Failed: []string{"x.TestX: thing [It] fails"}, Skipped: []string{"x.TestX: thing pends", "x.TestX: a spec that -ginkgo.v names"},
	}),
	Entry("each subtest, but not its parent", "0",
		events("run TestA", "run TestB", "run TestA/one", "pass TestA/one", "run TestA/two", "output TestA/two \tx_test.go:4: because\n", "skip TestA/two", "pass TestB", "pass TestA", "pass"),
		Result{Passed: 2, Skipped: []string{"x.TestA/two: x_test.go:4: because"}}),
	Entry("a suite whose set-up fails", "1", events("output TestX FAIL! -- 0 Passed | 0 Failed | 0 Pending | 0 Skipped\n", "fail TestX", "fail"), Result{Failed: []string{"x.TestX"}}),
	Entry("a test that ends its process", "1", events("run TestX", "fail"), Result{Failed: []string{"x.TestX"}}),
	Entry("a package that does not compile", "1", events("start", "fail"), Result{Failed: []string{"x"}}),
	Entry("a step without a test", "0", events("start", "skip"), Result{Failed: []string{"step: no test ran"}}),
	Entry("a step without a report", "0", "", Result{Failed: []string{"step: no test ran"}}),
	Entry("a command that fails although its tests pass", "3", events("pass TestX", "pass"), Result{Passed: 1, Failed: []string{"step: exit code 3"}}),
	Entry("a report that was not finished", "130", events("pass TestX", "pass")+`{"Action":`, Result{Passed: 1, Failed: []string{"step: unexpected EOF"}}),
	Entry("the specs of Ginkgo's own report", "1", `[{"SuiteSucceeded": false, "SpecReports": [
		{"LeafNodeType": "It", "LeafNodeText": "passes", "State": "passed"},
		{"LeafNodeType": "It", "LeafNodeText": "fails", "State": "panicked", "Failure": {"Message": "no\n way", "Location": {"FileName": "/a/b_test.go", "LineNumber": 7}},
			"SpecEvents": [{"SpecEventType": "By", "Message": "step 1"}, {"SpecEventType": "By", "Message": "step 2"}, {"SpecEventType": "Node"}]},
		{"LeafNodeType": "It", "LeafNodeText": "is pending", "State": "pending"},
		{"LeafNodeType": "It", "LeafNodeText": "skips", "State": "skipped", "NumAttempts": 1, "Failure": {"Message": "no seed"}},
		{"LeafNodeType": "It", "LeafNodeText": "has another label", "State": "skipped"},
		{"LeafNodeType": "BeforeSuite", "State": "passed"},
		{"LeafNodeType": "AfterSuite", "State": "failed"}]}]`, Result{
		Passed: 1, Failed: []string{`fails (b_test.go:7), step "step 2": no way`, "AfterSuite: "}, Skipped: []string{"is pending: pending", "skips: no seed"},
	}),
	Entry("a suite of Ginkgo that fails as a whole", "1", `[{"SuiteDescription": "E2E", "SpecialSuiteFailureReasons": ["timed out"]}]`, Result{Failed: []string{"E2E: [timed out]"}}),
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
		Expect(start("default_suites=(a b)\na_runs=first b_runs=second c_runs=third\na() { command_step false; command_step true; }\nb() { command_step true; }\nc() { command_step false; }\n").Wait()).NotTo(Succeed())
		Expect(string(out.Contents())).To(MatchRegexp(`(?s)=== a: first.*=== b: second.*\n--- FAIL: a: false: exit code 1\n\na +0m\d\ds   1 passed, 1 failed\nb +0m\d\ds   1 passed, 0 failed\nall +0m\d\ds   2 passed, 1 failed\n\n2 passed, 1 failed\n$`))
	})

	It("runs the suites that are named, and succeeds if all tests do", func() {
		Expect(start("a_runs=first b_runs=second\na() { command_step false; }\nb() { command_step true; }\n", "b").Wait()).To(Succeed())
		Expect(string(out.Contents())).To(HaveSuffix("\n1 passed, 0 failed\n"))
	})

	It("keeps KUBECONFIG only for suites that are named", func() {
		GinkgoT().Setenv("KUBECONFIG", "/users-cluster")
		content := "default_suites=(a)\na_runs=first\na() { echo \"cluster: ${KUBECONFIG:-none}\"; command_step true; }\n"

		Expect(start(content).Wait()).To(Succeed())
		Expect(string(out.Contents())).To(ContainSubstring("cluster: none\n"))
		Expect(start(content, "a").Wait()).To(Succeed())
		Expect(string(out.Contents())).To(ContainSubstring("cluster: /users-cluster\n"))
	})

	It("refuses a suite that does not exist", func() {
		Expect(start("a_runs=first\na() { :; }\n", "a", "run_suites").Wait()).NotTo(Succeed())
		Expect(out.Contents()).To(BeEmpty())
	})

	It("counts a failed set-up, and does not run the steps after it", func() {
		Expect(start("a_runs=first\na() { false || failed 'set-up: seed' || return; command_step true; }\n", "a").Wait()).NotTo(Succeed())
		Expect(string(out.Contents())).To(ContainSubstring("--- FAIL: a: set-up: seed\n"))
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
			Expect(text).To(ContainSubstring("\n--- FAIL: example.com/x/" + name + "\n"))
		}
		Expect(text).To(MatchRegexp(`\nSkipped: example.com/x/skips.TestSkip: .*no seed`))
		Expect(text).To(HaveSuffix("\n1 passed, 3 failed\n"))
	})

	It("lets the processes of a test clean up when it is interrupted, and runs no other", func() {
		command := start("a_runs=first b_runs=second\na() { command_step sh -c 'trap : INT; sh -c \"echo started; exec sleep 600\"; echo cleaned'; command_step echo later; }\nb() { command_step echo later; }\n", "a", "b")
		Eventually(out).Should(gbytes.Say("started"))
		Expect(command.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(command.Wait()).NotTo(Succeed())
		Expect(string(out.Contents())).To(And(ContainSubstring("\ncleaned\n"), Not(ContainSubstring("later")), ContainSubstring("--- FAIL: a: interrupted\n")))
		Expect(string(out.Contents())).To(HaveSuffix("\n1 passed, 1 failed\n"))
	})
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
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "WRAPPER="+wrapper)
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
		out, err := exec.Command("bash", "-c", string(suites)+"\nSEED_AUDIT_LOG=\nlimit_processes "+seconds+"\nginkgo() { printf '%s ' \"$1\"; }\nFOCUS=\nscenarios").Output()
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

		command := exec.Command("bash", "-c", string(suites)+"\nstart_seed() { :; }\nfind_assets() { return 1; }\ngo_test() { :; }\nseed() { echo \"$*\"; }\nginkgo() { echo \"$1\"; }\n"+function)
		command.Env = append(os.Environ(), "SEED_AUDIT_LOG="+auditLog, "FOCUS="+focus)
		out, err := command.Output()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(out)).To(Equal(expected))
	},
		Entry("with all scenarios", "scenarios", "/audit.log", "", "program-weight 1\n--procs=9\nprogram-weight 0.25\n--procs=3\n"),
		Entry("with those that the user selects", "scenarios", "/audit.log", "name", "program-weight 0.25\n--procs=2\n"),
		Entry("except on another cluster", "scenarios", "", "", "--procs=9\n--procs=3\n"),
		Entry("but not in the step of the long scenarios", "long", "/audit.log", "", strings.Repeat("program-weight 1\n--procs=9\nprogram-weight 0.25\n--procs=3\n", 2)+"program-weight 1\n--procs=4\n"),
	)

	DescribeTable("runs an end-to-end test", func(focus string, labels []string, expected int) {
		suites, err := os.ReadFile("suites.sh")
		Expect(err).NotTo(HaveOccurred())

		command := exec.Command("bash", "-c", string(suites)+"\nginkgo() { printf '%s\\n' \"$@\" | sed -n 's/^--label-filter=//p'; }\nscenarios")
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
		Entry("in one step", "", nil, 1),
		Entry("with the label quiet in one step", "", []string{"quiet"}, 1),
		Entry("with the label long in no step", "", []string{"long"}, 0),
		Entry("with both labels in no step", "", []string{"long", "quiet"}, 0),
		Entry("in one step if the user selects it", "name", nil, 1),
		Entry("with the label quiet in one step if the user selects it", "name", []string{"quiet"}, 1),
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
start_cluster() { :; }
go_test() { mapfile -t args < <(printf '%s\n' "${@:2}" | grep -v ^-) && go list -C "$1" -e -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' "${args[@]}"; }
ginkgo() { realpath "${!#}"; }
for suite in "${default_suites[@]}"; do "$suite" | sort -u; done`)
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
