// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Output runs a program and returns its output. The error contains the error output.
func Output(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	text := strings.TrimSpace(string(output))

	if err != nil {
		return text, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, text)
	}

	return text, nil
}

// Run runs a program and discards its output.
func Run(ctx context.Context, args ...string) error {
	_, err := Output(ctx, args...)
	return err
}
