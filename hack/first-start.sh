#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Measures the first `make up`: with an empty build cache, after the download of the modules. Prints its duration and that of the build of the
# six programs of Kubernetes alone. It needs root, a machine without a running seed, and no other work on the machine.
set -euo pipefail
cd "$(dirname "$0")/.."

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOGC=400
cluster=hack/seed/modules/cluster
kubernetes=()
for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
	kubernetes+=("k8s.io/kubernetes/cmd/$name")
done

# Sockets below this directory limit the length of its path.
caches=$(mktemp -d /tmp/first.XXXX)
trap 'rm -rf "$caches"' EXIT

echo "Downloading modules"
for module in ". ./cmd/..." "cmd/etcd-helper ." "hack/seed ." "$cluster tool ./..." "hack/seed/modules/backup-restore tool" "hack/seed/modules/etcd-wrapper/etcd34 ."; do
	read -r directory packages <<<"$module"
	# shellcheck disable=SC2086 # several packages
	go list -C "$directory" -deps $packages >/dev/null
done

echo "Building the six programs of Kubernetes"
began=$SECONDS
GOCACHE=$caches/kubernetes go build -C "$cluster" -ldflags="-s -w" -o "$caches/programs/" "${kubernetes[@]}"
alone=$((SECONDS - began))
rm -rf "$caches/kubernetes" "$caches/programs"
echo "The six programs of Kubernetes took $alone seconds"

export GOCACHE=$caches/build XDG_CACHE_HOME=$caches
trap 'make down && rm -rf "$caches"' EXIT
began=$SECONDS
make up
first=$((SECONDS - began))
echo "The six programs of Kubernetes took $alone seconds, and the first start $first seconds: $(awk "BEGIN { printf \"%.2f\", $first / $alone }") times as long"
