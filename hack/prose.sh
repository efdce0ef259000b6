#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Runs vale with the rules of .vale.ini over the documents and the comments of Go files. Fails if the number of alerts of one of the
# two differs from hack/vale/budget, so that a number can only fall.
#
#   hack/prose.sh          prints alerts only if their number exceeds the budget and is at most 100
#   hack/prose.sh -list    prints all alerts
#   hack/prose.sh -lower   writes lower numbers into hack/vale/budget
set -euo pipefail
cd "$(dirname "$0")/.."

budget=hack/vale/budget
mode=${1:-}

# vale parses Go files with tree-sitter, which is written in C.
export CGO_ENABLED=1
compiler=$(go env CC)
if ! echo 'int main(void) { return 0; }' | $compiler -include stdlib.h -x c -o /dev/null - 2>/dev/null; then
	echo "No C compiler works ($compiler). vale, the linter of prose, needs cgo: install gcc and the headers of the C library," >&2
	echo "on Debian with: apt-get install gcc libc6-dev" >&2
	exit 1
fi

# Prints the alerts of the files that match a pattern, one a line: path:line:column:rule:message.
alerts() {
	git ls-files --cached --others --exclude-standard -z -- "$1" ':!**/zz_generated.*' | while IFS= read -r -d '' file; do
		if [ -e "$file" ]; then printf '%s\0' "$file"; fi
	done | xargs -0 -r go tool -modfile="$PWD/hack/vale/go.mod" vale --no-global --no-exit --output=line
}

failed=0

# Compares the number of alerts of the files that match a pattern with the budget of their class.
check() {
	local class=$1 pattern=$2 found count allowed
	found=$(alerts "$pattern")
	count=$(grep -c . <<<"$found" || true)
	allowed=$(sed -n "s/^$class: //p" "$budget")

	if [ "$mode" = -lower ] && [ "$count" -lt "$allowed" ]; then
		sed -i "s/^$class: .*/$class: $count/" "$budget"
		allowed=$count
	fi
	if [ "$mode" = -list ] || { [ "$count" -gt "$allowed" ] && [ "$count" -le 100 ]; }; then
		echo "$found"
	fi

	echo "$count alerts of prose in $class (budget $allowed)"

	if [ "$count" -gt "$allowed" ]; then
		echo "There are more alerts than the budget allows: hack/prose.sh -list lists them" >&2
		failed=1
	elif [ "$count" -lt "$allowed" ]; then
		echo "There are fewer alerts than the budget: run hack/prose.sh -lower" >&2
		failed=1
	fi
}

check documents '*.md'
check comments '*.go'

exit "$failed"
