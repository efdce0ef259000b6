// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdclient is the only door to etcd: it asks one member at a time and answers in the types of etcdcluster. The
// package fake below it is a cluster in memory behind the same door.
//
// What may not live here: decisions, knowledge of Kubernetes objects, and access to keys of users.
package etcdclient
