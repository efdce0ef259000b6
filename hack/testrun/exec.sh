#!/bin/sh
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs a test binary for `go test -exec`, in the directory of its package. A suite of Ginkgo also writes the durations of its specs into the directory
# SPEC_REPORTS. If Go has the result in its cache, it does not call this script.
binary=$1
shift
if [ -n "${SPEC_REPORTS:-}" ] && grep -aq onsi/ginkgo/v2 "$binary"; then
	set -- "$@" "-ginkgo.json-report=$SPEC_REPORTS/$(echo "$PWD" | tr / _).json"
fi
exec "$binary" "$@"
