// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// TaskFor is the oldest task that was created for the annotation of an Etcd. Nil: there is none. Before are the tasks
// that existed when the annotation was set. A task that had ended or was running at that time may not include later
// writes.
func TaskFor(etcd, kind string, tasks, before []druidv1alpha1.EtcdOpsTask) *druidv1alpha1.EtcdOpsTask {
	begun := map[types.UID]bool{}
	for _, task := range before {
		begun[task.UID] = ptr.Deref(task.Status.State, druidv1alpha1.TaskStatePending) != druidv1alpha1.TaskStatePending
	}
	var found *druidv1alpha1.EtcdOpsTask
	for i := range tasks {
		task := &tasks[i]
		isIt := helper.TaskKind(task) == kind && task.Annotations[druidv1alpha1.TaskKindAnnotation] == kind &&
			ptr.Deref(task.Spec.EtcdName, "") == etcd && !begun[task.UID]
		if isIt && (found == nil || task.CreationTimestamp.Before(&found.CreationTimestamp)) {
			found = task
		}
	}

	return found
}

// TaskEnd writes the result of a task that has succeeded. The CustomResourceDefinitions of gardenlet prune the fields
// of the result. In this case TaskEnd writes the message of the operator. The error is that of the writer.
func TaskEnd(w io.Writer, task *druidv1alpha1.EtcdOpsTask) error {
	text := &strings.Builder{}
	for _, member := range task.Status.Members {
		fmt.Fprintf(text, "%s: %s before, %s after, unavailable for %s\n", member.Name,
			bytesOf(member.SizeBytesBefore), bytesOf(member.SizeBytesAfter), member.Stall.Duration.Round(time.Millisecond))
	}
	if snapshot := task.Status.Snapshot; snapshot != nil {
		fmt.Fprintf(text, "%s holds everything up to revision %d\n", snapshot.Name, snapshot.Revision)
	}
	if operation := task.Status.LastOperation; text.Len() == 0 && operation != nil {
		text.WriteString(operation.Description + "\n")
	}
	if text.Len() == 0 {
		text.WriteString("Done\n")
	}
	_, err := io.WriteString(w, text.String())

	return err
}

func bytesOf(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
