# shellcheck shell=bash disable=SC2034,SC2154 # run.sh uses and sets the variables
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# How many scenarios run at the same time, and how many of those that limit the gaps of clients to a second.
processes=9 quiet_processes=3

# With KILLS=all, as in test-all, tests kill the operator at all writes of a crash case. In the gate, they kill it at a third of them.
# Each suite has a variable with its description, and a function with its steps. run.sh defines the kinds of steps.

gate_suites=(check unit integration gate)               # make test
all_suites=(check unit modules random integration e2e) # make test-all
background_suites=(check unit modules random)            # need no cluster, and measure no duration
# The images that replace those of the seed.
images=(${WRAPPER:+"--wrapper=$WRAPPER"} ${SIDECAR:+"--sidecar=$SIDECAR"} ${WRAPPER_NEXT:+"--wrapper-next=$WRAPPER_NEXT"} ${SIDECAR_NEXT:+"--sidecar-next=$SIDECAR_NEXT"})
long_simulations=${SIMULATIONS:-20000} long_crash_rounds=${CRASH_ROUNDS:-5}

check_runs="linters of code and prose, generated files up to date"
check() {
	command_step make --no-print-directory check
	command_step make --no-print-directory check-generate
}

unit_runs="pure packages, goldens, chart, docs, programs"
unit() {
	list_packages ./... '/test/integration/|/test/(e2e|gardener)$|/hack/release$' || return
	go_test . -timeout=20m "${packages[@]}"
	go_test cmd/etcd-helper ./...
}

modules_runs="alerts, users of the API, the recorder of histories, and the tools of the repository"
modules() {
	# Compiles for Windows. With an empty build cache, this takes longer than the default timeout on two cores.
	go_test . -timeout=30m ./hack/release
	# The tests of these modules read files of other modules, which the test cache of Go does not track.
	go_test hack/seed/modules/etcd-wrapper/wrapper -count=1 ./...
	go_test hack/seed -count=1 ./...
	go_test test/consumer -count=1 ./...
	go_test test/linearizability ./...
	go_test test/rules -count=1 ./...
}

random_runs="20,000 simulations and API objects with random seeds, which the output contains, exhaustive exploration, and fuzz tests"
random() {
	local format=standard-verbose # also prints the output of passed tests
	SIMULATIONS=${SIMULATIONS:-2900} EXPLORED_FAULTS=${EXPLORED_FAULTS:-2} go_test . -count=1 -timeout=6h ./pkg/planner -ginkgo.timeout=6h
	API_SEED=random go_test . -count=1 ./test/apis/v1alpha1
	find_assets || return
	SPECS=${SPECS:-2000} SPECS_SEED=${SPECS_SEED:-random} go_test . -count=1 -timeout=1h ./test/integration/applicable
	fuzz
}

# fuzz runs each fuzz test FUZZ_RUNS times. It sets no time: at its end, a test can fail without an input (golang/go#75804).
# An input that fails is in testdata/fuzz of its package.
fuzz() {
	local tests file name
	mapfile -t tests < <(grep -roE '^func Fuzz\w+' --include=*_test.go cmd pkg | sort)
	((${#tests[@]})) || failed "no fuzz tests" || return
	for name in "${tests[@]}"; do
		file=${name%%:*} name=${name##*func }
		command_step go test -C "${file%/*}" -vet=off -run='^$' -fuzz="^$name\$" -fuzztime="${FUZZ_RUNS:-20000}x" .
	done
}

integration_runs="controllers against a kube-apiserver, and the sidecar against the APIs of stores (builds both if the cache does not contain them)"
integration() {
	find_assets || return
	# The tests mostly wait for controllers. Four packages therefore run at the same time.
	list_packages ./test/integration/... '/test/integration/(etcd|hostile)$' || return
	go_test . -count=1 -p=4 -timeout=20m "${packages[@]}"
	# This package has the most specs. Each process starts its own API server.
	ginkgo --procs=4 --timeout=20m ./test/integration/etcd
	# This package measures durations. No other tests may therefore run at the same time.
	go_test . -count=1 -timeout=20m ./test/integration/hostile/...
}

gate_runs="the end-to-end tests that show the mission, on the local seed (starts it if it does not run)"
gate() {
	start_cluster || return
	scenarios gate
}

e2e_runs="all end-to-end tests that are not long, on the local seed (starts it if it does not run), or on the cluster of KUBECONFIG"
e2e() {
	start_cluster || return
	local began
	began=$(date --utc +%FT%TZ)
	scenarios '!long && !soak'
	# Only the local seed has an audit log. Another cluster cannot have simulated nodes.
	[[ -z ${SEED_AUDIT_LOG:-} || -n ${FOCUS:-} ]] || { rights_step "$began"; bench_step; }
}

# rights_step TIME fails if the operator has a right that it has not used since the time, unless hack/rights/unused.txt has the reason.
rights_step() {
	local operator=gardener-extension-etcd-druid roles=$logs/roles.json
	kubectl get clusterroles,roles --all-namespaces --selector="app.kubernetes.io/name=$operator" --output=json >"$roles" || failed "reading the rights" || return
	command_step go run ./hack/rights "$roles" "system:serviceaccount:extension-etcd-druid:$operator" "$1" hack/rights/unused.txt "${SEED_AUDIT_LOG%.log}"*.log
}

# scenarios LABELS runs the scenarios with these labels, with the version of etcd in ETCD_VERSION.
scenarios() {
	if [[ -n ${FOCUS:-} ]]; then
		weigh_programs 0.25
		scenario_step 2 "$1" "--focus=$FOCUS"
	else
		weigh_programs 1
		scenario_step "$processes" "$1 && !quiet"
		wait_for_background
		weigh_programs 0.25
		scenario_step "$quiet_processes" "$1 && quiet" # at a low load, since these scenarios limit gaps to a second
		repeat_bound "${scenario_arguments[@]}"
	fi
}

# weigh_programs FRACTION sets the weight of the programs of the local seed, relative to the pods. While pods start, etcd otherwise waits too long for
# a CPU on a slow machine to send heartbeats. In the busy step, API server and kubelets would be too slow with less weight.
weigh_programs() {
	[[ -z ${SEED_AUDIT_LOG:-} ]] || seed program-weight "$1" || failed "set-up: seed program-weight $1"
}

# bench_step measures ten Etcds. It fails if they do not become ready, or if the operator writes while nothing changes. The loss of a node
# would take two minutes.
bench_step() {
	command_step env SIZES=10 FLEETS=tls OUT="$logs/bench" hack/bench/run.sh --idle=5s --quiet=4s --samples=3 --timeout=5m \
		--node-loss=false --profiles=false --check
}

# scenario_step PROCESSES LABELS [ARGUMENT] runs the scenarios with these labels. Ginkgo derives the order of the files from the random seed.
scenario_step() {
	scenario_arguments=(--seed=7541 --timeout=60m "--label-filter=$2" "${@:3}" ./test/e2e)
	ginkgo --procs="$1" "${scenario_arguments[@]}"
}

gardener_runs="Shoots on the Etcds of a real gardenlet (starts a garden and a seed); on request only"
gardener() {
	start_gardener || return
	ginkgo --procs=1 --timeout=2h '--label-filter=!last' ./test/gardener
	ginkgo --procs=1 --timeout=1h --label-filter=last ./test/gardener
	seed shoots down || failed "seed shoots down" # the last tests have deleted the Seed
}

long_runs="other random seeds, all scenarios with each version of etcd, and long repetitions on the local seed; on request only"
long() {
	SIMULATIONS=$long_simulations EXPLORED_FAULTS=${EXPLORED_FAULTS:-3} random
	local format=standard-verbose
	find_assets && for ((i = 0; i < long_crash_rounds; i++)); do
		KILLS=all CRASH_SEED=random go_test . -count=1 -timeout=20m ./test/integration/clusters
	done
	start_seed || return
	local version
	for version in 3.4 3.5; do ETCD_VERSION=$version scenarios '!long && !soak'; done
	weigh_programs 1
	ginkgo --procs=4 --timeout=6h --label-filter=long ./test/e2e
}

soak_runs="histories of concurrent clients for SOAK_DURATION while the operator and members are killed; on request only"
soak() {
	start_seed || return
	SOAK_DURATION=${SOAK_DURATION:-4h} ginkgo --procs=1 --seed="${SOAK_SEED:-$RANDOM}" --timeout=48h --label-filter=soak ./test/e2e
}

# list_packages PATTERN EXCLUDED sets packages to the Go packages of the pattern, except those that match the regular expression. It
# includes packages that do not compile: their tests then fail, and the other tests run.
list_packages() {
	mapfile -t packages < <(go list -e "$1" | grep -Ev "$2")
	((${#packages[@]})) || failed "set-up: go list $1"
}

find_assets() {
	KUBEBUILDER_ASSETS=$(seed assets | tail -n 1) || failed "set-up: seed assets" || return
	export KUBEBUILDER_ASSETS
	echo "set-up took $((SECONDS - start)) seconds"
}

# start_cluster uses the cluster of KUBECONFIG, which run.sh keeps only for `make test-e2e`, or else the local seed.
start_cluster() {
	if [[ -n ${KUBECONFIG:-} && $KUBECONFIG != "$(seed kubeconfig)" ]]; then connect_cluster; else start_seed; fi
}

# connect_cluster prepares the tests on a cluster that is not the local seed. It changes nothing on the cluster.
connect_cluster() {
	echo "Cluster: $(kubectl config current-context) of KUBECONFIG=$KUBECONFIG; tests that need the local seed are skipped"
	if [[ -n ${WRAPPER:-}${SIDECAR:-}${WRAPPER_NEXT:-}${SIDECAR_NEXT:-} ]]; then
		failed "set-up: WRAPPER and SIDECAR are for the local seed; on another cluster, set imageVectorOverwrite of the chart" || return
	fi
	command -v kubectl >/dev/null || failed "set-up: kubectl is not in PATH" || return
	hack/build.sh -o bin/ ./cmd/kubectl-etcd || failed "set-up: build kubectl-etcd" || return
	unset SEED_AUDIT_LOG SEED_LOCAL_STORE
	export PATH=$PWD/bin:$PATH
}

# limit_processes SECONDS sets how many scenarios run at the same time. The argument is how long the start of an empty seed took: 9 to 12 seconds
# on a fast machine. If it takes much longer, so do pods. With as many processes, probes and requests would then time out.
limit_processes() {
	if (($1 > 15)); then processes=6 quiet_processes=2; fi
	echo "The empty seed started in $1 seconds: $processes scenarios run at the same time, and $quiet_processes of those that limit gaps"
}

start_seed() {
	local exports began
	echo "Cluster: the local seed"
	seed build || failed "set-up: seed build" || return
	# On a busy disk, one fsync call can take longer than the bound of a test. The volumes are therefore in memory.
	began=$SECONDS
	seed up --example=false --volumes-in-memory || failed "set-up: seed up" || return
	limit_processes $((SECONDS - began))
	seed up --volumes-in-memory "${images[@]}" || failed "set-up: seed up" || return
	seed test-images || failed "set-up: seed test-images" || return
	exports=$(seed env) || failed "set-up: seed env" || return
	eval "$exports"
	echo "set-up took $((SECONDS - start)) seconds"
}

# start_gardener starts a garden with a seed, without a Shoot.
start_gardener() {
	local exports
	seed shoots up --shoot=false "${images[@]}" || failed "set-up: seed shoots up" || return
	exports=$(seed shoots env) || failed "set-up: seed shoots env" || return
	eval "$exports"
	echo "set-up took $((SECONDS - start)) seconds"
}

seed() { hack/seed/run.sh "$@"; }
