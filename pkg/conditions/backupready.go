// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// BackupReady is True if the newest full and delta snapshots are as new as schedule and period demand. The message has the newest snapshot of each
// kind. Later observations read from it when these were observed. Nil: no backup store is configured.
func BackupReady(in Input) *druidv1alpha1.Condition {
	if !helper.IsStoreConfigured(in.Etcd) {
		return nil
	}

	return combined(FullSnapshot(in), DeltaSnapshot(in))
}

// backupPart returns a part of the condition BackupReady.
func backupPart(status druidv1alpha1.ConditionStatus, reason, message string) *druidv1alpha1.Condition {
	return condition(druidv1alpha1.ConditionTypeBackupReady, status, reason, message)
}

// reportedBackup returns the previous message of the condition BackupReady. Empty: there is none.
func (in Input) reportedBackup() string {
	if before := Find(in.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeBackupReady); before != nil {
		return before.Message
	}

	return ""
}

// timeAfter returns the time that follows a text in a message. Zero: the message does not contain the text.
func timeAfter(message, text string) time.Time {
	_, rest, _ := strings.Cut(message, text)
	found, _ := time.Parse(time.RFC3339, rest[:min(len(rest), len("2006-01-02T15:04:05Z"))])

	return found
}
