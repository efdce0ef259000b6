// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The rights command compares the rights of the operator with its requests in audit logs of the API server.
//
//	rights ROLES USER SINCE UNUSED LOG...    prints the rights that the user did not use since a time
//
// ROLES is the output of kubectl get clusterroles,roles --output=json. SINCE is a time as in RFC 3339. UNUSED is a file with a line for each right that
// the user need not use: the right, a colon, and the reason. The command fails if the user did not use another right, or if the file names a right that is
// not granted.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	const arguments = 6 // the program and at least one log
	if len(os.Args) < arguments {
		fmt.Fprintln(os.Stderr, "usage: rights ROLES USER SINCE UNUSED LOG...")
		os.Exit(2)
	}
	since, err := time.Parse(time.RFC3339, os.Args[3])
	if err == nil {
		err = compare(os.Stdout, os.Args[1], requests{user: os.Args[2], since: since}, os.Args[4], os.Args[5:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
