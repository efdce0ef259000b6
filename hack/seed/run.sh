#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs the tool of the local seed with the arguments, as `go run -C hack/seed .` does. While Go compiles the tool, this script prints a line
# every ten seconds.
set -euo pipefail
cd "$(dirname "$0")"

# With less garbage collection the Go compiler is faster and uses more memory. The tool removes the variable before it starts programs.
export GOGC=400

log=$(mktemp)
report() {
	sleep 1 >/dev/null 2>&1
	while :; do
		echo "building the tool of the local seed: Go has compiled $(grep -c -v ' ' "$log") of at most $(go list -deps . | wc -l) packages, and continues after an interruption" >&2
		sleep 9 >/dev/null 2>&1
	done
}
report &
trap 'kill $!; rm "$log"' EXIT
if ! go build -v ./... 2>"$log"; then
	cat "$log" >&2
	exit 1
fi
trap - EXIT
kill $!
rm "$log"
exec go run . "$@"
