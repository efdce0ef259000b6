#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Builds the image from the Dockerfile with the first of docker, podman and buildah that is installed. BUILDER selects another program.
# EFFECTIVE_VERSION overrides the version. The script passes its arguments to the program, for example --platform linux/arm64.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${EFFECTIVE_VERSION:-$(cat VERSION)}
arguments=(--build-arg "EFFECTIVE_VERSION=$version" --tag "gardener-extension-etcd-druid:$version")

for program in ${BUILDER:-docker podman buildah}; do
	command -v "$program" >/dev/null || continue

	# podman and buildah of Debian 12 do not set BUILDPLATFORM if --platform is set.
	if [ "$(basename "$program")" != docker ]; then
		arguments+=(--build-arg "BUILDPLATFORM=linux/$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')")
	fi

	exec "$program" build "${arguments[@]}" "$@" .
done

echo "Not found: ${BUILDER:-docker, podman or buildah}. \`make image\` builds an image with the same binary and needs only Go." >&2
exit 1
