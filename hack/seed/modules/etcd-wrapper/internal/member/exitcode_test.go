// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/internal/member"
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
				if err := os.WriteFile(filepath.Join(volume, "exit_code"), []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			if got := member.ValidationMode(volume); got != test.want {
				t.Errorf("mode is %q, want %q", got, test.want)
			}
		})
	}
}
