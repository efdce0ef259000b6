// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the types of the API group druid.gardener.cloud/v1alpha1: Etcd, EtcdCopyBackupsTask and
// EtcdOpsTask, their constants and their registration in a scheme. It is wire-compatible with, and a superset of, the
// API module github.com/gardener/etcd-druid/api.
//
// What may not live here: behaviour. Questions about an Etcd are answered by pkg/apis/druid/helper, what the CRD schema
// cannot say is checked by pkg/apis/druid/validation. This package imports nothing of this module.
//
// +kubebuilder:object:generate=true
// +groupName=druid.gardener.cloud
package v1alpha1
