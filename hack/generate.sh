#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Writes everything that is generated anew, from the types outward: Go code and CRDs, then what is copied from them.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Generating Go code, CRDs and the API reference"
go generate ./pkg/... ./cmd/... ./imagevector/...

echo "Copying the CRDs into the chart"
crds=charts/gardener-extension-etcd-druid/files/crds
rm -rf "$crds"
mkdir -p "$crds"
cp pkg/apis/druid/v1alpha1/crds/*.yaml "$crds/"
