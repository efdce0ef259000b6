#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Measures the operator with each number of Etcds in SIZES and each kind of Etcds in FLEETS. Each measurement has its own new cluster.
# The results, the profiles and scale.md are in OUT. The arguments are passed to `bench run`. docs/operations/scale.md describes the
# measurements.
set -euo pipefail
cd "$(dirname "$0")/../.."

sizes=${SIZES:-300,1000,3000} fleets=${FLEETS:-plaintext,tls} out=$(realpath -m "${OUT:-bin/bench}")
commit=$(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo " with changes")
machine="$(nproc) cores ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)), $(awk '/^MemTotal/ {printf "%d", $2 / 1048576}' /proc/meminfo) GiB of memory"

seed() { GOGC=400 go run -C hack/seed . bench "$@"; }

hack/build.sh -o bin/ ./cmd/gardener-extension-etcd-druid ./hack/bench
trap 'seed down' EXIT
for fleet in ${fleets//,/ }; do
	for size in ${sizes//,/ }; do
		seed down
		seed up
		exports=$(seed env)
		eval "$exports"
		# The networks of the cluster are on this machine, where no proxy can reach them.
		env -u HTTP_PROXY -u HTTPS_PROXY -u http_proxy -u https_proxy nsenter --net="$BENCH_NETWORK" bin/bench run --etcds="$size" --fleet="$fleet" --out="$out/$fleet-$size" \
			--commit="$commit" --machine="$machine" "$@"
	done
done
bin/bench report "$out"
echo "The results are in $out/scale.md"
