#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs vale with the configuration .vale.ini on the documents, on the comments of Go files, and on the comments of the chart's values.
# Prints one alert per line. Fails if there are any alerts.
set -euo pipefail
cd "$(dirname "$0")/.."

# vale parses Go files with tree-sitter, a C library.
export CGO_ENABLED=1
compiler=$(go env CC)
if ! echo 'int main(void) { return 0; }' | $compiler -include stdlib.h -x c -o /dev/null - 2>/dev/null; then
	echo "The C compiler $compiler does not work. vale, the prose linter, requires cgo. Install gcc and the headers of the C library," >&2
	echo "on Debian: apt-get install gcc libc6-dev" >&2
	exit 1
fi

files() {
	git ls-files --cached --others --exclude-standard -z -- '*.md' '*.go' ':!**/zz_generated.*' | while IFS= read -r -d '' file; do
		if [ -e "$file" ]; then printf '%s\0' "$file"; fi
	done
}

vale=(go tool -modfile="$PWD/hack/vale/go.mod" vale --no-global --no-exit --output=line)
values=charts/gardener-extension-etcd-druid/values.yaml

# vale cannot read comments of YAML files. It reads them as Markdown, in which all other lines are empty.
comments() { sed -E -e 's/^ *# ?//' -e t -e 's/.*//' "$values" | "${vale[@]}" --ext=.md | sed "s|^stdin.md|$values|"; }

alerts=$(files | xargs -0 -r "${vale[@]}" && comments)
if [ -n "$alerts" ]; then
	echo "$alerts"
	echo "vale reports $(grep -c . <<<"$alerts") alerts: path:line:column:rule:message" >&2
	exit 1
fi
