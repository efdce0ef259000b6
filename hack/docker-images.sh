#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Builds the image from the Dockerfile with what the machine has. BUILDER names another program, EFFECTIVE_VERSION another version;
# arguments are handed on, such as --platform linux/arm64.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${EFFECTIVE_VERSION:-$(cat VERSION)}
arguments=(--build-arg "EFFECTIVE_VERSION=$version" --tag "gardener-extension-etcd-druid:$version")

for program in ${BUILDER:-docker podman buildah}; do
	command -v "$program" >/dev/null || continue

	# Those of Debian 12 do not know it where --platform is given.
	if [ "$(basename "$program")" != docker ]; then
		arguments+=(--build-arg "BUILDPLATFORM=linux/$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')")
	fi

	exec "$program" build "${arguments[@]}" "$@" .
done

echo "There is no ${BUILDER:-docker, podman or buildah} here. \`make image\` packs the same program from Go alone." >&2
exit 1
