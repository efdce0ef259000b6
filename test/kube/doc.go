// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package kube is an in-memory Kubernetes cluster for tests. It contains an API server, the controllers on which an etcd cluster
// depends, and the members with their sidecars and their backup store. The controllers are gardener-resource-manager, the StatefulSet
// and Job controllers, the garbage collector, the scheduler, and kubelets. The cluster is deterministic, has its own clock, and can be
// copied at any time (Fork).
//
// What may not live here: assertions, test cases, and knowledge about the operator beyond its API types and names.
package kube
