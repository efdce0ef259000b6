#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs the packages that have golden files, and no others, so that they write them. Those that take a kube-apiserver are left out;
# docs/development/testing.md says how to call them.
set -euo pipefail
cd "$(dirname "$0")/.."

packages() {
	grep -rl --include='*_test.go' UPDATE_GOLDEN "$@" | xargs -n1 dirname | sort -u | sed 's|^|./|'
}

export UPDATE_GOLDEN=1
packages charts cmd pkg | xargs go test
cd hack/seed
packages internal | xargs go test
cd ../..

git status --short -- '*testdata*'
