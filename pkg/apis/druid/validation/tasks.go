// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ValidateCopyBackupsTask checks an EtcdCopyBackupsTask before its Job is created. The name of the Job, which is longer than that of the task, is the
// value of a label of its pods.
func ValidateCopyBackupsTask(task *druidv1alpha1.EtcdCopyBackupsTask) field.ErrorList {
	errs := checkAll(CopyBackupsTaskBounds, task.Spec)
	errs = append(errs, validateStore(task.Spec.SourceStore, field.NewPath("spec", "sourceStore"))...)
	errs = append(errs, validateStore(task.Spec.TargetStore, field.NewPath("spec", "targetStore"))...)
	errs = append(errs, metav1validation.ValidateLabels(task.Spec.PodLabels, field.NewPath("spec", "podLabels"))...)
	if most := validation.LabelValueMaxLength - len(helper.CopyBackupsJobName(&druidv1alpha1.EtcdCopyBackupsTask{})); len(task.Name) > most {
		errs = append(errs, field.TooLong(field.NewPath("metadata", "name"), task.Name, most))
	}

	return errs
}

// ValidateOpsTask checks an EtcdOpsTask before it starts.
func ValidateOpsTask(task *druidv1alpha1.EtcdOpsTask) field.ErrorList {
	return checkAll(OpsTaskBounds, task.Spec)
}

// checkAll compares a spec with all bounds.
func checkAll[Spec any](bounds []Bound[Spec], spec Spec) field.ErrorList {
	var errs field.ErrorList
	for _, bound := range bounds {
		if value := bound.measure(spec); value.compare != nil {
			errs = append(errs, bound.check(value)...)
		}
	}

	return errs
}
