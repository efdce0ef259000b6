// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-etcd is the kubectl plugin of operators: `kubectl etcd status`. Everything but the process's signals and
// its exit code lives in the package app.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
)

func main() {
	utilruntime.ErrorHandlers = nil // the command reports a refused connection once, in its error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Run(ctx, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}
