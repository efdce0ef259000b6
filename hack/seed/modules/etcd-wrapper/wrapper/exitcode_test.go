// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

func TestValidationModeFollowsTheLastExit(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"no record":        {"", "full"},
		"ended by SIGTERM": {"terminated", "sanity"},
		"ended by SIGINT":  {"interrupt\n", "sanity"},
		"ended otherwise":  {"killed", "full"},
		"empty record":     {" ", "full"},
	} {
		t.Run(name, func(t *testing.T) {
			volume := t.TempDir()
			if test.content != "" {
				if err := os.WriteFile(exitCodeFile(volume), []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			if got := validationMode(volume); got != test.want {
				t.Errorf("mode is %q, want %q", got, test.want)
			}
		})
	}
}

func TestValidationModeRemovesTheMarker(t *testing.T) {
	volume := t.TempDir()
	if err := os.WriteFile(markerFile(volume), []byte("terminated"), 0o600); err != nil {
		t.Fatal(err)
	}

	if got := validationMode(volume); got != "full" {
		t.Errorf("mode is %q, want full", got)
	}

	if _, err := os.Stat(markerFile(volume)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("marker exists: %v", err)
	}
}
