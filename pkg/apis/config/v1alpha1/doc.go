// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the component configuration of the operator, config.druid.gardener.cloud/v1alpha1
// OperatorConfiguration: types, their defaults and their strict decoding. It accepts every file that was valid for
// etcd-druid, and adds to it. Flags, the environment and anything that acts on the configuration do not live here.
//
// +k8s:deepcopy-gen=package
// +kubebuilder:object:generate=true
package v1alpha1
