// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Merge merges the computed conditions into the current ones and returns the result, sorted by type. It removes conditions of
// the owned types that were not computed, and keeps all conditions of other types. LastTransitionTime changes only with the
// status, and LastUpdateTime only with the status, the reason or the message. If nothing changed, the result is identical to
// the input.
func Merge(current []druidv1alpha1.Condition, owned []druidv1alpha1.ConditionType, computed []druidv1alpha1.Condition, now time.Time) []druidv1alpha1.Condition {
	var merged []druidv1alpha1.Condition
	for _, condition := range current {
		if !slices.Contains(owned, condition.Type) {
			merged = append(merged, condition)
		}
	}
	for _, condition := range computed {
		merged = append(merged, withTimes(condition, Find(current, condition.Type), metav1.NewTime(now.Truncate(time.Second))))
	}
	slices.SortStableFunc(merged, func(a, b druidv1alpha1.Condition) int { return cmp.Compare(a.Type, b.Type) })

	return merged
}

func withTimes(condition druidv1alpha1.Condition, before *druidv1alpha1.Condition, now metav1.Time) druidv1alpha1.Condition {
	condition.LastTransitionTime, condition.LastUpdateTime = now, now
	if before == nil || before.Status != condition.Status {
		return condition
	}
	condition.LastTransitionTime = before.LastTransitionTime
	if before.Reason == condition.Reason && before.Message == condition.Message {
		condition.LastUpdateTime = before.LastUpdateTime
	}

	return condition
}

// combined returns one condition of parts that have its type. The first part that is False decides the status and the reason, else the first that is
// Unknown, else the first. The message has those of all parts.
func combined(parts ...*druidv1alpha1.Condition) *druidv1alpha1.Condition {
	severity := func(part *druidv1alpha1.Condition) int {
		return slices.Index([]druidv1alpha1.ConditionStatus{druidv1alpha1.ConditionFalse, druidv1alpha1.ConditionUnknown, druidv1alpha1.ConditionTrue}, part.Status)
	}
	decisive := slices.MinFunc(parts, func(a, b *druidv1alpha1.Condition) int { return severity(a) - severity(b) })
	var messages []string
	for _, part := range parts {
		if !slices.Contains(messages, part.Message) {
			messages = append(messages, part.Message)
		}
	}

	return condition(decisive.Type, decisive.Status, decisive.Reason, strings.Join(messages, ". "))
}

// IsTrue is true if the conditions contain the type with the status True.
func IsTrue(conditions []druidv1alpha1.Condition, conditionType druidv1alpha1.ConditionType) bool {
	condition := Find(conditions, conditionType)

	return condition != nil && condition.Status == druidv1alpha1.ConditionTrue
}

// Find returns the condition of the type. Nil: there is none.
func Find(conditions []druidv1alpha1.Condition, conditionType druidv1alpha1.ConditionType) *druidv1alpha1.Condition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}

	return nil
}
