#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs a command in the directory of each Go module of the repository.
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files 'go.mod' '*/go.mod' | while IFS= read -r module; do
	echo "$(dirname "$module")"
	(cd "$(dirname "$module")" && "$@" </dev/null)
done
