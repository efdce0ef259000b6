// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// memoryLimitVariable is the environment variable with the memory limit of the container, in bytes. Empty: there is none.
const memoryLimitVariable = "MEMORY_LIMIT"

// limitMemory lets the Go runtime collect garbage more often from 90 % of the memory limit of the container. The rest is for memory that the Go runtime does
// not count, and for allocations during a collection.
func limitMemory() error {
	value := os.Getenv(memoryLimitVariable)
	if value == "" {
		return nil
	}
	limit, err := strconv.ParseInt(value, 10, 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("the environment variable %s is %q: set it to a number of bytes, or remove it", memoryLimitVariable, value)
	}
	debug.SetMemoryLimit(limit / 10 * 9)

	return nil
}
