// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package kube simulates a Kubernetes cluster in memory, for tests. It simulates the API server, gardener-resource-manager, the StatefulSet
// and Job controllers, the garbage collector, the scheduler and the kubelets. The members run with their sidecars and one backup store. The simulation is deterministic, has its own clock, and can be copied at any time with Fork.
//
// What may not live here: assertions, test cases, and knowledge about the operator beyond its API types and names.
package kube
