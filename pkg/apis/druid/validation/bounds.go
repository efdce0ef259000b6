// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/robfig/cron"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Bound limits a quantity, a duration, a count, or the length of a text in the spec of an Etcd. A working cluster needs a value
// within it.
type Bound struct {
	// Path of the field, for example `spec.etcd.quota`.
	Path string
	// Least and Most are the limits, which are valid values. Empty: there is no such limit. For a text, Most is the number of characters.
	Least, Most string

	measure func(druidv1alpha1.EtcdSpec) measure
}

// measure is a value that can be compared with a limit. Nil compare: the field is not set.
type measure struct {
	text    string
	compare func(limit string) int
}

// Bounds are all bounds. The CustomResourceDefinition contains them too. That of another origin may not.
var Bounds = []Bound{
	{"spec.storageCapacity", "64Mi", "64Ti", func(s druidv1alpha1.EtcdSpec) measure { return quantity(s.StorageCapacity) }},
	{"spec.etcd.quota", "16Mi", "128Gi", func(s druidv1alpha1.EtcdSpec) measure { return quantity(s.Etcd.Quota) }},
	{"spec.etcd.snapshotCount", "100", "10000000", func(s druidv1alpha1.EtcdSpec) measure { return number(s.Etcd.SnapshotCount) }},
	{"spec.etcd.heartbeatDuration", "1s", "10m", func(s druidv1alpha1.EtcdSpec) measure { return duration(s.Etcd.HeartbeatDuration) }},
	{"spec.etcd.etcdDefragTimeout", "1s", "24h", func(s druidv1alpha1.EtcdSpec) measure { return duration(s.Etcd.EtcdDefragTimeout) }},
	{"spec.backup.deltaSnapshotMemoryLimit", "1Mi", "16Gi", func(s druidv1alpha1.EtcdSpec) measure { return quantity(s.Backup.DeltaSnapshotMemoryLimit) }},
	{"spec.backup.maxBackupsLimitBasedGC", "1", "10000", func(s druidv1alpha1.EtcdSpec) measure { return number(s.Backup.MaxBackupsLimitBasedGC) }},
	{"spec.backup.garbageCollectionPeriod", "1s", "720h", func(s druidv1alpha1.EtcdSpec) measure { return duration(s.Backup.GarbageCollectionPeriod) }},
	{"spec.backup.deltaSnapshotPeriod", "0s", "24h", func(s druidv1alpha1.EtcdSpec) measure { return duration(s.Backup.DeltaSnapshotPeriod) }},
	{"spec.backup.deltaSnapshotRetentionPeriod", "0s", "87600h", func(s druidv1alpha1.EtcdSpec) measure { return duration(s.Backup.DeltaSnapshotRetentionPeriod) }},
	{"spec.backup.etcdSnapshotTimeout", "1s", "24h", func(s druidv1alpha1.EtcdSpec) measure { return duration(s.Backup.EtcdSnapshotTimeout) }},
	{"spec.backup.leaderElection.reelectionPeriod", "1001ms", "1h", func(s druidv1alpha1.EtcdSpec) measure {
		return duration(ptr.Deref(s.Backup.LeaderElection, druidv1alpha1.LeaderElectionSpec{}).ReelectionPeriod)
	}},
	{"spec.backup.leaderElection.etcdConnectionTimeout", "1001ms", "1h", func(s druidv1alpha1.EtcdSpec) measure {
		return duration(ptr.Deref(s.Backup.LeaderElection, druidv1alpha1.LeaderElectionSpec{}).EtcdConnectionTimeout)
	}},
	{"spec.backup.snapshotCompaction.eventsThreshold", "0", "", func(s druidv1alpha1.EtcdSpec) measure {
		return number(ptr.Deref(s.Backup.SnapshotCompaction, druidv1alpha1.SnapshotCompactionSpec{}).EventsThreshold)
	}},
	{"spec.backup.snapshotCompaction.triggerFullSnapshotThreshold", "0", "", func(s druidv1alpha1.EtcdSpec) measure {
		return number(ptr.Deref(s.Backup.SnapshotCompaction, druidv1alpha1.SnapshotCompactionSpec{}).TriggerFullSnapshotThreshold)
	}},
	{"spec.etcd.image", "", "1024", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Etcd.Image) }},
	{"spec.backup.image", "", "1024", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Backup.Image) }},
	{"spec.backup.store.prefix", "", "512", func(s druidv1alpha1.EtcdSpec) measure {
		return length(new(ptr.Deref(s.Backup.Store, druidv1alpha1.StoreSpec{}).Prefix))
	}},
	{"spec.backup.snapstoreTempDir", "", "512", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Backup.SnapstoreTempDir) }},
	{"spec.etcd.initialClusterToken", "", "256", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Etcd.InitialClusterToken) }},
	{"spec.sharedConfig.autoCompactionRetention", "", "32", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Common.AutoCompactionRetention) }},
	{"spec.volumeClaimTemplate", "", "63", func(s druidv1alpha1.EtcdSpec) measure { return length(s.VolumeClaimTemplate) }},
	{"spec.storageClass", "", "253", func(s druidv1alpha1.EtcdSpec) measure { return length(s.StorageClass) }},
	{"spec.priorityClassName", "", "253", func(s druidv1alpha1.EtcdSpec) measure { return length(s.PriorityClassName) }},
}

// ValidateBounds compares an Etcd in its canonical form with all Bounds, and refuses schedules without a next time. For a value that the spec before
// has too, it returns a warning: the cluster runs with it. Nil before: the cluster is new.
func ValidateBounds(etcd *druidv1alpha1.Etcd, before *druidv1alpha1.EtcdSpec) (errs, warnings field.ErrorList) {
	add := func(isKnown bool, found field.ErrorList) {
		if isKnown {
			warnings = append(warnings, found...)
		} else {
			errs = append(errs, found...)
		}
	}
	known := ptr.Deref(before, druidv1alpha1.EtcdSpec{})
	for _, bound := range Bounds {
		if value := bound.measure(etcd.Spec); value.compare != nil {
			add(before != nil && value.text == bound.measure(known).text, bound.check(value))
		}
	}
	full, defragmentation := etcd.Spec.Backup.FullSnapshotSchedule, etcd.Spec.Etcd.DefragmentationSchedule
	add(ptr.Equal(full, known.Backup.FullSnapshotSchedule), validateNextTime(full, field.NewPath("spec", "backup", "fullSnapshotSchedule")))
	add(ptr.Equal(defragmentation, known.Etcd.DefragmentationSchedule), validateNextTime(defragmentation, field.NewPath("spec", "etcd", "defragmentationSchedule")))

	return errs, warnings
}

// validateNextTime refuses a schedule on days that do not exist. The sidecar would take full snapshots without a pause.
func validateNextTime(schedule *string, at *field.Path) field.ErrorList {
	parsed, err := cron.ParseStandard(ptr.Deref(schedule, "* * * * *"))
	if err != nil || !parsed.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil // validateSchedule refuses what cannot be read
	}

	return field.ErrorList{field.Invalid(at, *schedule, "has no next time, because its months do not have that day: set a day that one of them has, for example 28, or remove the field for the default")}
}

func (b Bound) check(value measure) field.ErrorList {
	path, hint := field.NewPath(b.Path), ""
	if strings.HasSuffix(value.text, "m") {
		hint = "; m is milli, and Mi is 1024 × 1024"
	}
	switch {
	case b.Least != "" && value.compare(b.Least) < 0:
		return field.ErrorList{field.Invalid(path, value.text, "must be at least "+b.Least+hint)}
	case b.Most != "" && value.compare(b.Most) > 0 && b.Least == "":
		return field.ErrorList{field.TooLong(path, "", int(integer(b.Most)))}
	case b.Most != "" && value.compare(b.Most) > 0:
		return field.ErrorList{field.Invalid(path, value.text, "must be at most "+b.Most)}
	default:
		return nil
	}
}

func quantity(value *resource.Quantity) measure {
	if value == nil {
		return measure{}
	}

	return measure{value.String(), func(limit string) int { return value.Cmp(resource.MustParse(limit)) }}
}

func duration(value *metav1.Duration) measure {
	if value == nil {
		return measure{}
	}

	return measure{value.Duration.String(), func(limit string) int {
		parsed, _ := time.ParseDuration(limit) // a constant

		return cmp.Compare(value.Duration, parsed)
	}}
}

func number[T int32 | int64](value *T) measure {
	if value == nil {
		return measure{}
	}

	return measure{strconv.FormatInt(int64(*value), 10), func(limit string) int { return cmp.Compare(int64(*value), integer(limit)) }}
}

func length(text *string) measure {
	if text == nil {
		return measure{}
	}

	return measure{*text, func(limit string) int { return cmp.Compare(int64(utf8.RuneCountInString(*text)), integer(limit)) }}
}

func integer(limit string) int64 {
	parsed, _ := strconv.ParseInt(limit, 10, 64) // a constant

	return parsed
}
