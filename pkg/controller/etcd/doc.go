// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcd is the controller that reconciles an Etcd. It observes the cluster once, and computes the plan and the objects with pure
// packages. It writes a ManagedResource, executes at most one step, and patches the status once.
//
// Package component/etcd renders the objects, package planner computes the next step, and package conditions the conditions. This package has no
// manifest, no quorum calculation and no request to etcd of its own. Package care reports the health of a cluster.
package etcd
