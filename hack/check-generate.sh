#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Generates in a copy of the work tree and compares, so that the tree itself stays as it is.
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

# Lines are cut: the packed chart of the registration is one of many thousand characters.
if ! diff --recursive --unified "$copy.before" "$copy" | cut -c1-200; then
	echo "Generated files are not up to date. Run: make generate" >&2
	exit 1
fi
