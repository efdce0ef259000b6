// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/json"
	"fmt"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// PinnedDefaults reads, out of what is remembered of the accepted generation, the defaults that its objects are rendered
// with. The error says that nothing is remembered, or that somebody broke it.
func PinnedDefaults(text string) (state.Defaults, error) {
	pinned := struct {
		Defaults state.Defaults `json:"defaults"`
	}{}
	if err := json.Unmarshal([]byte(text), &pinned); err != nil {
		return state.Defaults{}, fmt.Errorf("reading what the accepted generation is rendered with: %w", err)
	}

	return pinned.Defaults, nil
}
