#!/usr/bin/env bash
# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Updates all generated files: first Go code and CRDs from the API types, then the files that are derived from them.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Generating Go code, CRDs and the API reference"
go -C pkg/apis/druid generate ./...
go generate ./pkg/... ./cmd/... ./imagevector/...

# copy_into_chart DIRECTORY FILE... replaces a directory of the chart with copies of the files.
copy_into_chart() {
	local folder=charts/gardener-extension-etcd-druid/files/$1
	shift
	rm -rf "$folder"
	mkdir -p "$folder"
	install -m 644 "$@" "$folder/"
}

echo "Writing the version into the chart and the examples"
version=$(cat VERSION)
sed -i.old "s|^appVersion: .*|appVersion: $version|" charts/gardener-extension-etcd-druid/Chart.yaml
examples=(example/extension.yaml example/controller-registration.yaml)
sed -i.old "s|\(etcd-druid:\)v[^ ]*$|\1$version|" "${examples[@]}"
rm charts/gardener-extension-etcd-druid/Chart.yaml.old "${examples[@]/%/.old}"

echo "Copying CRDs into the chart"
copy_into_chart crds pkg/apis/druid/v1alpha1/crds/*.yaml

# The CRD ManagedResource, from the version of gardener in go.mod.
go mod download github.com/gardener/gardener
gardener=$(go list -m -f '{{.Dir}}' github.com/gardener/gardener)
copy_into_chart resource-manager-crds "$gardener"/example/resource-manager/10-crd-resources.gardener.cloud_managedresources.yaml

echo "Packing the chart into the ControllerRegistration"
go run ./hack/registration
