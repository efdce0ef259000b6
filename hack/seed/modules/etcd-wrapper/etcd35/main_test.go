// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"testing"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper/wrappertest"
)

func TestMain(m *testing.M) { wrappertest.Main(m, version()) }

func TestEtcd(t *testing.T) {
	wrappertest.TestEtcd(t, wrappertest.Expected{Release: "3.5.24", LogLine: regexp.MustCompile(`(?m)^\{"level":"info","ts":"[^"]+","caller":"etcdserver/`)})
}
