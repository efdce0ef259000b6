// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Command registration packs the chart into example/controller-registration.yaml, so that the garden needs no registry for charts. An
// equal chart results in equal bytes. The rest of the file is written by hand.
package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/internal/archive"
)

const file = "example/controller-registration.yaml"

var rawChart = regexp.MustCompile(`(?m)^  rawChart: .*$`)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	files, err := archive.Directory("charts", "gardener-extension-etcd-druid")
	if err != nil {
		return err
	}
	chart, err := archive.TarGz(files, time.Time{})
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !rawChart.Match(manifest) {
		return fmt.Errorf("%s has no key rawChart", file)
	}
	manifest = rawChart.ReplaceAllLiteral(manifest, []byte("  rawChart: "+base64.StdEncoding.EncodeToString(chart)))

	return os.WriteFile(file, manifest, 0o644) // #nosec G306 -- a file of the repository
}
