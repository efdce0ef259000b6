// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Command values prints the reference of the values of the chart. The schema contains the keys, types and allowed values. The file
// values.yaml contains the defaults and descriptions. It is an error if the files have different keys, or if a value has no description.
//
// helm-docs is not used, because it does not read schemas. It derives the type from the default, and most switches have no default.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const chart = "charts/gardener-extension-etcd-druid"

func main() {
	if err := run(os.Stdout, chart); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run writes the reference of the values of the chart in this directory.
func run(out io.Writer, directory string) error {
	schema, err := readSchema(filepath.Join(directory, "values.schema.json"))
	if err != nil {
		return err
	}
	values, err := readValues(filepath.Join(directory, "values.yaml"))
	if err != nil {
		return err
	}
	page, err := render(schema, values)
	if err != nil {
		return fmt.Errorf("%s: %w", directory, err)
	}
	_, err = io.WriteString(out, page)

	return err
}
