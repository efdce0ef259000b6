// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Command gardener-extension-etcd-druid runs the operator that turns Etcd resources into running etcd clusters.
// Everything but the process's signals and its exit code lives in the package app.
package main

import (
	"os"

	"github.com/gardener/gardener/pkg/logger"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
)

func main() {
	logf.SetLogger(logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON))

	if err := app.NewCommand(signals.SetupSignalHandler()).Execute(); err != nil {
		logf.Log.Error(err, "Operator failed")
		os.Exit(1)
	}
}
