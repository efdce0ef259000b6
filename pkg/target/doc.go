// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package target resolves what a generation of an Etcd is to be rendered with. It resolves whether the generation is accepted, its TLS
// modes, the stage of its CA rotation, and its backup store. Its functions decide from an Etcd and an Observation. Reads, writes and the
// clock may not live here.
package target
