// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

func isIntegration(path string) bool { return below(path, "test/integration") && !isMeasurement(path) }

// isMeasurement is true for integration tests that compare times, so that no other test may run at the same time.
func isMeasurement(path string) bool { return below(path, "test/integration/hostile") }

func isUnit(path string) bool { return !below(path, "test/integration") && !below(path, "test/e2e") }

func below(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// packagesIn returns the packages of the module in dir that keep accepts, as paths that start with "./".
func packagesIn(ctx context.Context, dir string, keep func(string) bool) ([]string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-e", "-f", "{{.Dir}}", "./...")
	list.Dir = dir

	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages in %s: %w", dir, err)
	}

	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}

	var packages []string

	for _, folder := range strings.Fields(string(out)) {
		path, err := filepath.Rel(dir, folder)
		if err != nil {
			return nil, err
		}

		if keep == nil || keep(filepath.ToSlash(path)) {
			packages = append(packages, "./"+filepath.ToSlash(path))
		}
	}

	return packages, nil
}
