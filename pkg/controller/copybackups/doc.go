// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package copybackups carries out EtcdCopyBackupsTasks: it finds both stores, has a Job copy, and says how far that is.
//
// What may not live here: what the Job looks like and what its state means (pkg/component/copybackups), and how stores are found
// (pkg/backupstore).
package copybackups
