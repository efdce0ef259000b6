// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package ownership decides whether this process may act on the Etcds of the cluster: not while the etcd-druid is at work that
// gardenlet and gardener-operator install, and not while another of our instances leads. It takes a seed over from that
// etcd-druid, and gives it back.
//
// What may not live here: what is done to Etcds while the process acts, and adoption of what etcd-druid has made, which is part
// of carrying an Etcd out.
package ownership
