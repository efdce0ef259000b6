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

// Output runs a program to its end and returns what it printed. The error carries its error output.
func Output(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	text := strings.TrimSpace(string(output))

	if err != nil {
		return text, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, text)
	}

	return text, nil
}

// Run is Output for those who only want to know whether it worked.
func Run(ctx context.Context, args ...string) error {
	_, err := Output(ctx, args...)
	return err
}
