// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The seed command builds and runs a small Kubernetes cluster with the operator on this machine. It is a development tool: `seed help`
// lists its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/command"
)

func main() {
	_ = os.Unsetenv("GOGC") // the Makefile sets it for the compiler of this program only

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)

	stop()
	os.Exit(code)
}
