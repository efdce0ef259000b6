#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Generates the files in a copy of the work tree, and compares them with the work tree. It does not change the work tree.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

git ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' file; do
	if [ -e "$file" ]; then printf '%s\0' "$file"; fi
done | tar --null --files-from=- --create --file=- | tar --extract --file=- --directory="$copy"

cp -a "$copy" "$copy.before"
trap 'rm -rf "$copy" "$copy.before"' EXIT

(cd "$copy" && hack/generate.sh)

# Truncates long lines: the packed chart in controller-registration.yaml is a single line of many thousand characters.
if ! diff --recursive --unified "$copy.before" "$copy" | cut -c1-200; then
	echo "Generated files are not up to date. Run: make generate" >&2
	exit 1
fi
