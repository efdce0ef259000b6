// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package copybackups renders the Job of an EtcdCopyBackupsTask, and maps the observation of this Job to conditions. All its
// functions are pure.
//
// What may not live here: clients, and the resolution of stores.
package copybackups
