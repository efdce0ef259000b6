// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package ownership decides whether this process may act on the Etcds of the cluster. It must not act while the etcd-druid
// that gardenlet or gardener-operator installs is running, or while another instance of this operator is the leader. The
// package takes a seed over from that etcd-druid, and hands it back. A process that runs in place of it labels its own pod.
//
// What may not live here: actions on Etcds while the process is active, and the adoption of objects that etcd-druid created.
// A reconciliation adopts them.
package ownership
