// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object:headerFile=../../../../hack/boilerplate.go.txt paths=.
