#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs only the tests of packages with golden files, so that they update these files. Packages whose tests need a kube-apiserver are
# not included: docs/development/testing.md describes how to update their golden files.
set -euo pipefail
cd "$(dirname "$0")/.."

packages() {
	grep -rl --include='*_test.go' UPDATE_GOLDEN "$@" | xargs -n1 dirname | sort -u | sed 's|^|./|'
}

export UPDATE_GOLDEN=1
packages charts cmd pkg | xargs go test
go test ./test/e2e/framework # writes manifests of the local seed
cd hack/seed
packages internal | xargs go test
cd ../..

git status --short -- '*testdata*' '*.golden.yaml'
