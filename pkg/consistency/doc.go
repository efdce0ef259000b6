// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package consistency compares the data of the voting members of a cluster, and decides which of them have data that a quorum does not have. It reads
// from members through the client that it gets. It neither writes anything nor decides what is done about a difference.
package consistency
