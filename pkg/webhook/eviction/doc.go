// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package eviction delays the eviction of the only member of an Etcd with the update strategy Surge. The webhook rejects the eviction and
// annotates the pod. The operator then replaces the member through a temporary second member. After etcdcluster.EvictionTimeout, the webhook
// allows the eviction.
//
// The webhook fails open: without a running operator, and after an error, the API server decides about the eviction as usual.
//
// What may not live here: how a member is replaced.
package eviction
