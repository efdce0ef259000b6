// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object:headerFile=../../../../hack/boilerplate.go.txt paths=.
//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen crd:generateEmbeddedObjectMeta=false paths=. output:crd:dir=./crds
//go:generate go tool -modfile=../../../../hack/tools/go.mod crd-ref-docs --source-path=. --config=../../../../docs/api-reference/crd-ref-docs.yaml --renderer=markdown --output-path=../../../../docs/api-reference/druid.md
