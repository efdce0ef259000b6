#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs the suites in the arguments, all suites with the argument `all`, or those of the gate without one. suites.sh defines them. A failed test, step or
# suite does not stop the others. Suites that measure no duration run in the background, with the CPU time that the others leave. The last lines are the
# longest specs, the skipped, repeated and failed tests, the time of each suite, and `N passed, M failed`. The complete output (output.log), the durations
# of all specs (specs.tsv) and the reports stay in a temporary directory. SIGINT and SIGTERM interrupt the tests, which then clean up.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
root=$PWD

suites_file=${TESTRUN_SUITES:-hack/testrun/suites.sh}
# shellcheck source=hack/testrun/suites.sh
. "$suites_file"

# With less garbage collection the compiler, the tests and their API servers are faster, and use more memory. The seed removes the variable.
gogc=${GOGC:-400}
# TESTRUN_LOGS is the directory of the run in whose background this one runs. The tests do not inherit it.
foreground=${TESTRUN_LOGS:-}
unset TESTRUN_LOGS
logs=${foreground:-$(mktemp -d -t testrun-XXXXXX)} || exit 1
interrupted=$logs/interrupted background=$logs/background step=0

# command_step COMMAND... runs the command as one test. The test passes if the exit code is 0.
command_step() {
	[[ ! -e $interrupted ]] || return
	"$@"
	record "$*" $? ""
}

# go_test DIRECTORY ARGUMENT... runs `go test` with the arguments in the directory. The linters run vet.
go_test() {
	start_step || return
	local gotestsum
	# Does not run gotestsum with `go tool`, which forwards a signal that gotestsum also receives. A second signal kills gotestsum.
	gotestsum=$(go tool -modfile="$PWD/hack/tools/go.mod" -n gotestsum)
	export SPEC_REPORTS=$logs/specs/$suite
	mkdir -p "$SPEC_REPORTS"
	(cd "$1" && GOGC=$gogc exec "$gotestsum" --format="${format:-pkgname}" --format-hide-empty-pkg --format-icons=text --jsonfile="$report" -- \
		-vet=off -exec="$root/hack/testrun/exec.sh" "${@:2}")
	record "step $step" $? "$report"
}

# ginkgo ARGUMENT... runs the specs of one package in parallel processes. go.mod pins the version of the command and of the library.
ginkgo() {
	start_step || return
	GOGC=$gogc go run github.com/onsi/ginkgo/v2/ginkgo --vet=off --keep-going --json-report="${report##*/}" --output-dir="$logs" "$@"
	record "step $step" $? "$report"
}

# repeat_bound ARGUMENT... runs a scenario of the last step again, alone and with these arguments, if it is the only failed one, and if it failed
# only its bound on a duration. No second scenario of a run is repeated.
repeat_bound() {
	local focus
	[[ ! -e $interrupted && ! -e $logs/repeated ]] || return
	focus=$(go run ./hack/testrun repeatable "$report") && [[ -n $focus ]] || return
	touch "$logs/repeated"
	echo "Repeats the scenario that failed its bound on a duration: $focus"
	repeats=$report ginkgo --procs=1 "--focus=^$focus" "$@"
}

start_step() {
	[[ ! -e $interrupted ]] || return
	report=$logs/$suite-$((++step)).json
}

# record NAME EXITCODE REPORT adds a step to those of the summary.
record() { printf '%s\t%s\t%s\t%s\t%s\n' "$suite" "$1" "$2" "$3" "${repeats:-}" >>"$logs/steps.tsv"; }

# failed NAME adds a failed test, and returns 1.
failed() {
	record "$1" 1 ""
	return 1
}

# processor prints the seconds of CPU time that all processes of the machine have used.
processor() { awk -v ticks="$(getconf CLK_TCK)" '/^cpu / {printf "%d\n", ($2 + $3 + $4 + $7 + $8) / ticks}' /proc/stat; }

# run_suites SUITE... runs the suites one after the other.
run_suites() {
	local start
	for suite in "$@"; do
		start=$SECONDS step=0 description=${suite}_runs
		printf '\n=== %s: %s\n' "$suite" "${!description}"
		(trap : INT && "$suite") # in a subshell, so that its variables do not affect the next suite
		[[ ! -e $interrupted ]] || failed interrupted
		printf '%s\t%s\t\n' "$suite" $((SECONDS - start)) >>"$logs/suites.tsv"
		[[ ! -e $interrupted ]] || break
	done
}

# run_all SUITE... runs the suites, and prints the summary. Next to other suites, those of background_suites run in the background.
run_all() {
	local first=() second=() suite used
	used=$(processor)
	trap : INT # SIGINT ends the running test, not this shell
	echo "Output and reports: $logs"
	: >"$logs/steps.tsv"

	for suite in "$@"; do
		if [[ " ${background_suites[*]:-} " == *" $suite "* ]]; then second+=("$suite"); else first+=("$suite"); fi
	done
	if ((${#first[@]} && ${#second[@]})); then
		echo "In the background, with the output in $background.log: ${second[*]}"
		# In a session of its own: the scheduler of Linux shares the CPU time among sessions before it compares the processes of a session.
		# bash starts processes in the background with an ignored SIGINT.
		TESTRUN_LOGS=$logs env --default-signal=INT setsid hack/testrun/run.sh "${second[@]}" >"$background.log" 2>&1 &
		echo $! >"$background.pid"
		set -- "${first[@]}"
	fi
	run_suites "$@"
	wait_for_background
	printf 'all\t%s\t%s\n' "$SECONDS" $(($(processor) - used)) >>"$logs/suites.tsv"

	printf '\nOutput and reports: %s\n\n' "$logs"
	go run ./hack/testrun summary "$logs"
}

# wait_for_background prints the output of the suites in the background until they have ended.
wait_for_background() {
	[[ ! -e $background.pid ]] || tail --pid="$(cat "$background.pid")" --lines=+1 --follow "$background.log" && rm -f "$background.pid"
}

# Only a suite that the user names uses the cluster of the user. The variable is often set in a shell for another purpose.
case ${1:-} in
'' | all)
	if [[ -n ${1:-} ]]; then
		set -- "${all_suites[@]}"
		export KILLS=all
	else
		set -- "${gate_suites[@]}"
	fi
	unset KUBECONFIG
	;;
esac
for suite in "$@"; do
	description=${suite}_runs
	if [[ -z ${!description:-} ]]; then
		echo "unknown suite $suite; the suites are $(sed -n 's/^\([a-z0-9]*\)_runs=.*/\1/p' "$suites_file" | tr '\n' ' ')" >&2
		exit 2
	fi
done

if [[ -n $foreground ]]; then
	trap : INT
	{ echo 19 >/proc/self/autogroup; } 2>/dev/null
	chrt --idle --pid 0 $$
	run_suites "$@"
	exit
fi

# The tests and tee run in a separate process group, so that this script can send SIGINT to all processes of a test.
group=
interrupt() {
	[[ -n $group && -e $interrupted ]] || return
	kill -INT -- -"$group"
	[[ ! -e $background.pid ]] || kill -INT -- -"$(cat "$background.pid")"
}
trap 'touch "$interrupted"; interrupt' INT TERM
set -m
run_all "$@" </dev/null 2>&1 | tee -i "$logs/output.log" &
set +m
group=$(jobs -p %%)
interrupt # if the signal arrived before the variable was set
while kill -0 $! 2>/dev/null; do wait $!; done

[[ $(tail -n 1 "$logs/output.log") =~ ^[1-9][0-9]*\ passed,\ 0\ failed$ ]]
