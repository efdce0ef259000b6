#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Builds static, stripped, reproducible binaries that contain their version, as for a release. The Makefile, the Dockerfile and the
# local seed use this script. The same sources and the same Go version therefore result in identical binaries.
# The arguments are arguments of `go build`. Paths are relative to the root of the repository. EFFECTIVE_VERSION overrides the file
# VERSION. GOOS and GOARCH select the target platform. With `-C DIRECTORY` as the first arguments, it builds another module of the
# repository, and paths are relative to that directory.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${EFFECTIVE_VERSION:-$(cat VERSION)}
if [ "${1:-}" = -C ]; then
	cd "$2"
	shift 2
fi
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -mod=readonly" GOWORK=off

# Sets the output of `--version`, and the version in the user agent that API servers write to their audit logs.
exec go build -ldflags "-s -w \
	-X k8s.io/component-base/version.gitVersion=$version \
	-X k8s.io/component-base/version/verflag.programName=gardener-extension-etcd-druid \
	-X k8s.io/client-go/pkg/version.gitVersion=$version \
	-X github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/app.version=$version" "$@"
