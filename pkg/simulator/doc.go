// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the cluster of one Etcd in memory. It plays the API server, gardener-resource-manager, the StatefulSet
// controller, the scheduler, and the kubelets. It also plays the volumes, the backup store, and etcd with its sidecars. Tests inject faults.
// From creates a simulation from the observation of a real cluster.
//
// The caller is the operator: it calls Observe, decides, and calls Apply or Execute. Tick then lets each other component act once. The caller
// passes the start time, and each tick adds TickDuration.
//
// What may not live here: decisions of the operator (see package planner), checks of its promises, a Kubernetes client, and a clock of its
// own.
package simulator
