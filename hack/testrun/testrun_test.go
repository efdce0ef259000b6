// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("reading go test -json", func() {
	read := func(stream string) (Result, string) {
		var out bytes.Buffer

		report := NewGoReport(&out)
		ExpectWithOffset(1, report.Read(bufio.NewReader(strings.NewReader(stream)))).To(Succeed())

		return report.Result(), out.String()
	}

	It("counts specs where Ginkgo runs, and subtests where it does not", func() {
		stream, err := os.ReadFile("testdata/mixed.json")
		Expect(err).NotTo(HaveOccurred())

		result, out := read(string(stream))

		Expect(result.Passed).To(Equal(2), "one spec and one subtest")
		Expect(result.Failed).To(ConsistOf("example.com/x.TestX: thing [It] fails: Expected <int>: 1 to equal <int>: 2"))
		Expect(result.Skipped).To(ConsistOf(
			"example.com/x.TestX: thing pends",
			"example.com/x.TestX: a spec that -ginkgo.v names",
			"example.com/x.TestPlain/b: x_test.go:4: because",
		))
		Expect(out).To(ContainSubstring("to equal"), "what failed is shown in full")
		Expect(out).To(ContainSubstring("FAIL example.com/x (2 passed, 1 failed, 3 skipped)"))
	})

	It("counts a package that does not build as a failure and shows the compiler's message", func() {
		result, out := read(`{"ImportPath":"example.com/x","Action":"build-output","Output":"x.go:1: undefined: y\n"}
{"Action":"start","Package":"example.com/x"}
{"Action":"fail","Package":"example.com/x","Elapsed":0,"FailedBuild":"example.com/x"}
`)
		Expect(result).To(Equal(Result{Failed: []string{"example.com/x"}}))
		Expect(out).To(ContainSubstring("undefined: y"))
	})

	It("counts a suite whose set-up fails before any spec as a failure", func() {
		result, _ := read(`{"Action":"output","Package":"p","Test":"TestP","Output":"FAIL! -- 0 Passed | 0 Failed | 0 Pending | 0 Skipped\n"}
{"Action":"fail","Package":"p","Test":"TestP"}
{"Action":"fail","Package":"p"}
`)
		Expect(result).To(Equal(Result{Failed: []string{"p.TestP"}}))
	})

	It("counts nothing for a package without tests", func() {
		result, out := read(`{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"?   \tp\t[no test files]\n"}
{"Action":"skip","Package":"p","Elapsed":0}
`)
		Expect(result).To(Equal(Result{}))
		Expect(out).To(BeEmpty())
	})
})

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var _ = Describe("reading Ginkgo's report", func() {
	It("counts specs by their state and leaves those of another suite alone", func() {
		path := filepath.Join(GinkgoT().TempDir(), "report.json")
		Expect(os.WriteFile(path, []byte(`[{"SuiteSucceeded": false, "SpecReports": [
			{"LeafNodeType": "It", "LeafNodeText": "passes", "State": "passed"},
			{"LeafNodeType": "It", "LeafNodeText": "breaks", "State": "panicked"},
			{"LeafNodeType": "It", "LeafNodeText": "waits", "State": "pending"},
			{"LeafNodeType": "It", "LeafNodeText": "is asked to stop", "State": "skipped", "Failure": {"Message": "no seed"}},
			{"LeafNodeType": "It", "LeafNodeText": "says nothing", "State": "skipped", "NumAttempts": 1},
			{"LeafNodeType": "It", "LeafNodeText": "is filtered out", "State": "skipped"},
			{"LeafNodeType": "BeforeSuite", "State": "passed"},
			{"LeafNodeType": "AfterSuite", "State": "failed"}]}]`), 0o600)).To(Succeed())

		result, err := ReadGinkgoReport(path)

		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(Equal(Result{
			Passed:  1,
			Failed:  []string{"breaks", "AfterSuite"},
			Skipped: []string{"waits: pending", "is asked to stop: no seed", "says nothing: no reason given"},
		}))
	})

	It("fails without a report", func() {
		_, err := ReadGinkgoReport(filepath.Join(GinkgoT().TempDir(), "report.json"))
		Expect(err).To(MatchError(ContainSubstring("no report")))
	})
})

var _ = Describe("running a suite", func() {
	var out bytes.Buffer

	run := func(suite Suite) Result {
		out.Reset()
		return Runner{Root: GinkgoT().TempDir(), Logs: GinkgoT().TempDir(), Out: &out}.Run(context.Background(), suite)
	}

	It("continues after a step that fails", func() {
		result := run(Suite{Name: "s", Steps: []Step{{Command: []string{"false"}}, {Command: []string{"true"}}}})
		Expect(result.Passed).To(Equal(1))
		Expect(result.Failed).To(ConsistOf("s: false: exit status 1"))
	})

	It("counts what crashes, does not build or has no test as a failure, and shows why", func() {
		root := GinkgoT().TempDir()
		for path, content := range map[string]string{
			"go.mod":               "module example.com/x\n\ngo 1.26\n",
			"fine/x_test.go":       "package x\n\nimport \"testing\"\n\nfunc TestFine(*testing.T) {}\n",
			"broken/x_test.go":     "package x\n\nfunc f() { undefined() }\n",
			"panicking/x_test.go":  "package x\n\nimport \"testing\"\n\nfunc TestPanic(*testing.T) { panic(\"no way\") }\n",
			"exiting/x_test.go":    "package x\n\nimport (\n\"os\"\n\"testing\"\n)\n\nfunc TestMain(*testing.M) { os.Exit(3) }\n",
			"none/none.go":         "package none\n",
			"elsewhere/go.mod":     "module example.com/y\n\ngo 1.26\n",
			"elsewhere/nothing.go": "package y\n",
		} {
			Expect(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(root, path), []byte(content), 0o600)).To(Succeed())
		}

		out.Reset()
		result := Runner{Root: root, Logs: GinkgoT().TempDir(), Out: &out}.Run(context.Background(),
			Suite{Name: "s", Steps: []Step{{Count: GoTest}, {Count: GoTest, Dir: "elsewhere"}}})

		Expect(result.Passed).To(Equal(1))
		Expect(result.Failed).To(ConsistOf(
			"example.com/x/broken", "example.com/x/panicking.TestPanic", "example.com/x/exiting", "s: step 2 has run no test"))
		Expect(out.String()).To(And(ContainSubstring("undefined: undefined"), ContainSubstring("no way")))
	})

	It("lets all processes of a command clean up when it is interrupted", func() {
		out.Reset()

		ctx, cancel := context.WithCancel(context.Background())
		result := Runner{Root: GinkgoT().TempDir(), Logs: GinkgoT().TempDir(), Out: writerFunc(func(p []byte) (int, error) {
			cancel() // it has started
			return out.Write(p)
		})}.Run(ctx, Suite{Name: "s", Steps: []Step{{Command: []string{"sh", "-c", `trap : INT; sh -c "echo started; exec sleep 600"; echo cleaned`}}}})

		Expect(result.Failed).NotTo(BeEmpty())
		Expect(out.String()).To(Equal("started\ncleaned\n"))
	})

	It("hands what the set-ups export to the steps", func() {
		result := run(Suite{
			Name: "s",
			Setups: []Setup{
				{Command: []string{"sh", "-c", `echo starting; echo "export IGNORED=\"there\""`}},
				{Command: []string{"sh", "-c", `echo building >&2; echo first; echo last`}, As: "FOLDER"},
				{Command: []string{"sh", "-c", `echo 'export SEED="there"'; echo 'export PATH="/x:""$PATH"'`}, Exports: true},
			},
			Steps: []Step{{Command: []string{"sh", "-c", `test "$SEED/$FOLDER/$IGNORED" = there/last/ && expr "$PATH" : "/x:.*/bin"`}}},
		})
		Expect(result).To(Equal(Result{Passed: 1}), out.String())
		Expect(out.String()).To(And(ContainSubstring("starting"), ContainSubstring("building")), "progress is shown")
		Expect(out.String()).NotTo(ContainSubstring("first"))
	})

	It("counts a failed set-up and does not run the steps", func() {
		result := run(Suite{Name: "s", Setups: []Setup{{Command: []string{"false"}}}, Steps: []Step{{Command: []string{"true"}}}})
		Expect(result).To(Equal(Result{Failed: []string{"s: set-up: false: exit status 1"}}))
	})
})

var _ = Describe("choosing suites", func() {
	all := []Suite{{Name: "a"}, {Name: "b"}, {Name: "long", OnRequest: true}}

	It("takes all but those on request when none is named", func() {
		Expect(choose(all, nil)).To(HaveLen(2))
	})

	It("takes those that are named, in the order of the table", func() {
		Expect(choose(all, []string{"long", "a"})).To(Equal([]Suite{{Name: "a"}, {Name: "long", OnRequest: true}}))
	})

	It("refuses a name that does not exist and lists those that do", func() {
		_, err := choose(all, []string{"c"})
		Expect(err).To(MatchError(`no suite is called "c"; there are a, b, long`))
	})
})

var _ = Describe("the summary", func() {
	It("ends with the counts over all, alone on the last line", func() {
		var out bytes.Buffer

		WriteSummary(&out, []Row{{Name: "unit", Took: 90 * time.Second, Result: Result{Passed: 3}}}, Result{Passed: 3, Failed: []string{"x"}})

		Expect(out.String()).To(ContainSubstring("--- FAIL: x\n"), "because tools search logs for it")
		Expect(out.String()).To(HaveSuffix("\n3 passed, 1 failed\n"))
		Expect(out.String()).To(MatchRegexp(`unit +1m30s +3 passed, 0 failed`))
	})

	It("names what was skipped", func() {
		var out bytes.Buffer

		WriteSummary(&out, nil, Result{Passed: 3, Skipped: []string{"p.TestX: because"}})

		Expect(out.String()).To(ContainSubstring("p.TestX: because"))
		Expect(out.String()).To(MatchRegexp(`all +0s +3 passed, 0 failed, 1 skipped\n`))
		Expect(out.String()).To(HaveSuffix("\n3 passed, 0 failed\n"))
	})
})
