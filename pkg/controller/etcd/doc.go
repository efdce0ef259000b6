// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcd is the controller that carries out the spec of an Etcd: it reads the world once, lets pure packages
// decide and render, writes a ManagedResource, does at most one dangerous step, and patches the status once.
//
// What is rendered, what the next step is and what a condition says is decided elsewhere (component/etcd, etcdcluster,
// conditions): no manifest, no quorum arithmetic and no question to etcd lives here. The health of a cluster is the
// business of the package care.
package etcd
