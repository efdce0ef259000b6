#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs the suites in the arguments, or the default suites of suites.sh. A failed test, step or suite does not stop the others.
# The last lines are the skipped tests, the failed tests, the time of each suite, and `N passed, M failed`. The complete output
# (output.log) and the reports stay in a temporary directory. SIGINT and SIGTERM interrupt the tests, which then clean up.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

suites_file=${TESTRUN_SUITES:-hack/testrun/suites.sh}
# shellcheck source=hack/testrun/suites.sh
. "$suites_file"

# With less garbage collection the compiler, the tests and their API servers are faster, and use more memory. The seed removes the variable.
gogc=${GOGC:-400}
logs=$(mktemp -d -t testrun-XXXXXX) || exit 1
results=$logs/results interrupted=$logs/interrupted steps=0

# command_step COMMAND... runs the command as one test. The test passes if the exit code is 0.
command_step() {
	[[ ! -e $interrupted ]] || return
	if "$@"; then echo "passed 1" >>"$results"; else failed "$*: exit code $?"; fi
}

# go_test DIRECTORY ARGUMENT... runs `go test` with the arguments in the directory.
go_test() {
	start_step || return
	local gotestsum
	# Does not run gotestsum with `go tool`, which forwards a signal that gotestsum also receives. A second signal kills gotestsum.
	gotestsum=$(go tool -modfile="$PWD/hack/tools/go.mod" -n gotestsum)
	(cd "$1" && GOGC=$gogc exec "$gotestsum" --format="${format:-pkgname}" --format-hide-empty-pkg --format-icons=text --jsonfile="$report" -- "${@:2}")
	count $?
}

# ginkgo ARGUMENT... runs the specs of one package in parallel processes. go.mod pins the version of the command and of the library.
ginkgo() {
	start_step || return
	GOGC=$gogc go run github.com/onsi/ginkgo/v2/ginkgo --keep-going --json-report="${report##*/}" --output-dir="$logs" "$@"
	count $?
}

start_step() {
	[[ ! -e $interrupted ]] || return
	report=$logs/$suite-$((++steps)).json
}

count() { go run ./hack/testrun "$suite step $steps" "$1" "$report" >>"$results" || failed "cannot count the results of step $steps"; }

failed() {
	echo "failed $suite: $1" >>"$results"
	return 1
}

# counts RESULTS prints the total numbers of passed, failed and skipped tests.
counts() {
	awk '{n[$1] += $1 == "passed" ? $2 : 1} END {printf "%d passed, %d failed%s\n", n["passed"], n["failed"], n["skipped"] ? ", " n["skipped"] " skipped" : ""}' "$1"
}

# row NAME SECONDS RESULTS prints the summary line of one suite.
row() { printf '%-12s %5dm%02ds   %s\n' "$1" $(($2 / 60)) $(($2 % 60)) "$(counts "$3")"; }

run_suites() {
	local rows='' start
	trap : INT # SIGINT ends the running test, not this shell
	echo "Output and reports: $logs"

	for suite in "$@"; do
		start=$SECONDS steps=0 results=$logs/$suite.results description=${suite}_runs
		echo "passed 0" >"$results"
		printf '\n=== %s: %s\n' "$suite" "${!description}"
		(trap : INT && "$suite") # in a subshell, so that its variables do not affect the next suite
		[[ ! -e $interrupted ]] || failed interrupted
		cat "$results" >>"$logs/results"
		rows+=$(row "$suite" $((SECONDS - start)) "$results")$'\n'
		[[ ! -e $interrupted ]] || break
	done

	printf '\nOutput and reports: %s\n' "$logs"
	sed -n 's/^skipped /Skipped: /p' "$logs/results"
	sed -n 's/^failed /--- FAIL: /p' "$logs/results" # log parsers search for this prefix
	printf '\n%s%s\n\n' "$rows" "$(row all "$SECONDS" "$logs/results")"
	counts <(grep -v ^skipped "$logs/results")
}

# Only a suite that the user names uses the cluster of the user. The variable is often set in a shell for another purpose.
(($#)) || {
	set -- "${default_suites[@]}"
	unset KUBECONFIG
}
for suite in "$@"; do
	description=${suite}_runs
	if [[ -z ${!description:-} ]]; then
		echo "unknown suite $suite; the suites are $(sed -n 's/^\([a-z0-9]*\)_runs=.*/\1/p' "$suites_file" | tr '\n' ' ')" >&2
		exit 2
	fi
done

# The tests and tee run in a separate process group, so that this script can send SIGINT to all processes of a test.
group=
interrupt() { [[ -z $group || ! -e $interrupted ]] || kill -INT -- -"$group"; }
trap 'touch "$interrupted"; interrupt' INT TERM
set -m
run_suites "$@" </dev/null 2>&1 | tee -i "$logs/output.log" &
set +m
group=$(jobs -p %%)
interrupt # if the signal arrived before the variable was set
while kill -0 $! 2>/dev/null; do wait $!; done

[[ $(tail -n 1 "$logs/output.log") =~ ^[1-9][0-9]*\ passed,\ 0\ failed$ ]]
