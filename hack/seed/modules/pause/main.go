// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The pause command is the first process of each pod. It keeps the namespaces of the pod alive, and reaps orphaned processes in pods with a
// shared process namespace.
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

// reap reaps every child that has ended. One signal may stand for multiple children.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
