#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Builds the programs as they are delivered: static, stripped, reproducible, and with their version. The Makefile, the
# Dockerfile and the local seed use this script, so that equal sources and an equal Go version result in equal bytes.
# The arguments are those of `go build`, relative to the root. EFFECTIVE_VERSION overrides the file VERSION; GOOS and
# GOARCH are respected.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${EFFECTIVE_VERSION:-$(cat VERSION)}
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -mod=readonly" GOWORK=off

# What `--version` says, and the name by which API servers know the programs in their audit logs.
exec go build -ldflags "-s -w \
	-X k8s.io/component-base/version.gitVersion=$version \
	-X k8s.io/component-base/version/verflag.programName=gardener-extension-etcd-druid \
	-X k8s.io/client-go/pkg/version.gitVersion=$version" "$@"
