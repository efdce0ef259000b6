// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build calls hack/build.sh for a platform.
func (r release) build(ctx context.Context, p platform, arguments ...string) error {
	_, err := r.command(ctx, []string{"GOOS=" + p.OS, "GOARCH=" + p.Arch, "EFFECTIVE_VERSION=" + r.version}, "hack/build.sh", arguments...)

	return err
}

// command runs a program in the root of the repository and returns its standard output. An error contains its standard error.
func (r release) command(ctx context.Context, environment []string, name string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, arguments...) // #nosec G204 -- programs of the repository
	command.Dir = r.root
	command.Env = append(os.Environ(), environment...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s failed: %w: %s", name, err, cmp.Or(stderr.String(), "no output"))
	}

	return output, nil
}

func writeAll(directory string, files map[string][]byte) error {
	if err := os.MkdirAll(directory, 0o755); err != nil { // #nosec G301 -- published files
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o644); err != nil { // #nosec G306 -- published files
			return err
		}
	}

	return nil
}
