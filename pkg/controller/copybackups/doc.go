// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package copybackups is the controller of EtcdCopyBackupsTasks. It resolves both stores, creates the Job that copies the
// snapshots, and reports its progress.
//
// What may not live here: the manifest of the Job and the meaning of its status (pkg/component/copybackups), and the resolution
// of stores (pkg/backupstore).
package copybackups
