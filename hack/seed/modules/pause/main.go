// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The pause command is the first process of each pod: it keeps the pod's namespaces, and reaps the children of pods that share one
// process namespace.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)

	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}

		reap()
	}
}

// reap collects every child that has ended; several deaths may have come as one signal.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
