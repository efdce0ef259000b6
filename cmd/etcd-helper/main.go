// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Command etcd-helper inspects databases of etcd members in Jobs of the operator. The operator's image contains it. It is a module of its
// own, so that the operator does not depend on the packages of the etcd server.
package main

import (
	"os"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/app"
)

func main() {
	os.Exit(app.Run(os.Stdout, os.Stderr, os.Args[1:]))
}
