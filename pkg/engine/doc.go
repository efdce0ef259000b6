// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package engine reconciles one Etcd: it observes, resolves the desired state, plans, renders, applies, and executes at most one step. The
// controller and `kubectl etcd plan` drive the same loop, each over its own Observer and Executor. A Kubernetes client, an etcd
// client and the rules of the planner may not live here.
package engine
