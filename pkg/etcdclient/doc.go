// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdclient is the client of the etcd API. It calls one member at a time and returns types of package etcdcluster. No
// other package uses the etcd API. The package fake implements the same client with a cluster in memory.
//
// What may not live here: decisions, knowledge of Kubernetes objects, and access to keys of users.
package etcdclient
