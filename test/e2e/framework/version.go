// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

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

// VersionOf returns the version at a commit of this repository, with the values in the file. The source is removed after the test.
func VersionOf(ctx context.Context, commit, values string) Version {
	GinkgoHelper()
	source := GinkgoT().TempDir()
	archive := filepath.Join(source, "source.tar")
	output(exec.CommandContext(ctx, "git", "-C", filepath.Dir(filepath.Dir(seedTool)), "archive", "--output="+archive, commit)) // #nosec G204 -- a commit in a test
	output(exec.CommandContext(ctx, "tar", "--extract", "--file="+archive, "--directory="+source))                              // #nosec G204 -- the directory of the test
	Expect(os.Remove(archive)).To(Succeed())

	values, err := filepath.Abs(values)
	Expect(err).NotTo(HaveOccurred())

	return Version{source: source, values: values}
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
