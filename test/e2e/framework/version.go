// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// Version is a version of the operator, with its chart.
type Version struct {
	// source is the root of the checkout. values is the path of the values for the chart. Empty means this checkout and the settings of the seed.
	source, values string
}

// CurrentVersion returns the version of this checkout.
func CurrentVersion() Version { return Version{} }

// VersionOf returns the version at a commit of this repository, with the values in the file.
func VersionOf(ctx context.Context, commit, values string) Version {
	GinkgoHelper()
	values, err := filepath.Abs(values)
	Expect(err).NotTo(HaveOccurred())

	return Version{source: SourceOf(ctx, commit), values: values}
}

// SourceOf returns a directory with the files of this repository at a commit. The directory is removed after the test.
func SourceOf(ctx context.Context, commit string) string {
	GinkgoHelper()
	source := GinkgoT().TempDir()
	archive := filepath.Join(source, "source.tar")
	output(exec.CommandContext(ctx, "git", "-C", filepath.Dir(filepath.Dir(seedTool)), "archive", "--output="+archive, commit)) // #nosec G204 -- a commit in a test
	output(exec.CommandContext(ctx, "tar", "--extract", "--file="+archive, "--directory="+source))                              // #nosec G204 -- the directory of the test
	Expect(os.Remove(archive)).To(Succeed())

	return source
}

// The commit that added this line to this file introduced version 1 of the record. Versions of the operator before it are not supported.
const (
	recordFile = "pkg/state/version.go"
	recordLine = "const Version = 1"
)

// EarlierCommit returns the commit from which the operator is upgraded: UPGRADE_FROM, or else the one that introduced version 1 of the record. It
// fails if the clone does not contain that commit, or if it is checked out.
func EarlierCommit(ctx context.Context) string {
	GinkgoHelper()
	if commit := os.Getenv("UPGRADE_FROM"); commit != "" {
		return commit
	}
	git := func(args ...string) string {
		GinkgoHelper()

		return strings.TrimSpace(output(exec.CommandContext(ctx, "git", args...))) // #nosec G204 -- constants
	}
	Expect(git("rev-parse", "--is-shallow-repository")).To(Equal("false"), "the clone is shallow and may lack the earlier version: run `git fetch --unshallow`, or set UPGRADE_FROM to a commit")
	first, _, _ := strings.Cut(git("log", "--reverse", "--format=%H", "-S"+recordLine, "--", ":(top)"+recordFile), "\n")
	Expect(first).NotTo(BeEmpty(), "no commit adds %q to %s: set UPGRADE_FROM to a commit", recordLine, recordFile)
	Expect(first).NotTo(Equal(git("rev-parse", "HEAD")), "version 1 of the record begins with the commit that is checked out, and there is no earlier one: set UPGRADE_FROM to a commit")

	return first
}

// WithoutCRDs returns the version without the CustomResourceDefinitions of its chart. Helm then keeps those that are installed.
func (v Version) WithoutCRDs() Version {
	GinkgoHelper()
	values := map[string]any{}
	Expect(yaml.Unmarshal([]byte(readFile(v.values)), &values)).To(Succeed())
	values["crds"] = map[string]any{"enabled": false}
	content, err := yaml.Marshal(values)
	Expect(err).NotTo(HaveOccurred())

	v.values = filepath.Join(GinkgoT().TempDir(), "values.yaml")
	Expect(os.WriteFile(v.values, content, 0o600)).To(Succeed())

	return v
}

// Install builds a version of the operator, and installs it with its chart on the local seed. It waits until the operator acts.
func (o *Operator) Install(ctx context.Context, version Version) {
	GinkgoHelper()
	o.seed(ctx, "deploy", "--source="+version.source, "--values="+version.values)
	o.EventuallyLeading(ctx)
}
