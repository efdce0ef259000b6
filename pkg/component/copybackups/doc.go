// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package copybackups maps an EtcdCopyBackupsTask to the Job that carries it out, and what is seen of that Job to conditions.
// Everything in it is pure.
//
// What may not live here: clients, and how stores are found.
package copybackups
