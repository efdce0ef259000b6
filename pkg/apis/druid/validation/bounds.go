// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"slices"
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

// Bound limits a quantity, a duration, a count, or the length of a text in a spec. A working cluster needs a value within it.
type Bound[Spec any] struct {
	// Path of the field, for example `spec.etcd.quota`.
	Path string
	// Least and Most are the limits, which are valid values. Empty: there is no such limit. For a text, they are numbers of characters.
	Least, Most string

	measure func(Spec) measure
}

// measure is a value that can be compared with a limit. Nil compare: the field is not set.
type measure struct {
	text    string
	compare func(limit string) int
	// isText is true if the limits are numbers of characters.
	isText bool
}

// Bounds are all bounds of an Etcd. The CustomResourceDefinition contains them too. That of another origin may not. Other rules limit ports, the
// number of members, and lists.
var Bounds = append([]Bound[druidv1alpha1.EtcdSpec]{
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
	{"spec.backup.snapstoreTempDir", "", "512", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Backup.SnapstoreTempDir) }},
	{"spec.etcd.initialClusterToken", "", "256", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Etcd.InitialClusterToken) }},
	{"spec.sharedConfig.autoCompactionRetention", "", "32", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Common.AutoCompactionRetention) }},
	{"spec.volumeClaimTemplate", "", "63", func(s druidv1alpha1.EtcdSpec) measure { return length(s.VolumeClaimTemplate) }},
	{"spec.storageClass", "", "253", func(s druidv1alpha1.EtcdSpec) measure { return length(s.StorageClass) }},
	{"spec.priorityClassName", "", "253", func(s druidv1alpha1.EtcdSpec) measure { return length(s.PriorityClassName) }},
	{"spec.memberNamePrefix", "", "63", func(s druidv1alpha1.EtcdSpec) measure { return length(s.MemberNamePrefix) }},
	{"spec.backup.fullSnapshotSchedule", "", "256", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Backup.FullSnapshotSchedule) }},
	{"spec.etcd.defragmentationSchedule", "", "256", func(s druidv1alpha1.EtcdSpec) measure { return length(s.Etcd.DefragmentationSchedule) }},
}, storeBounds("spec.backup.store", func(s druidv1alpha1.EtcdSpec) druidv1alpha1.StoreSpec {
	return ptr.Deref(s.Backup.Store, druidv1alpha1.StoreSpec{})
})...)

// CopyBackupsTaskBounds are all bounds of an EtcdCopyBackupsTask.
var CopyBackupsTaskBounds = slices.Concat(
	[]Bound[druidv1alpha1.EtcdCopyBackupsTaskSpec]{
		{"spec.maxBackupAge", "0", "2147483647", func(s druidv1alpha1.EtcdCopyBackupsTaskSpec) measure { return number(s.MaxBackupAge) }},
		{"spec.maxBackups", "0", "2147483647", func(s druidv1alpha1.EtcdCopyBackupsTaskSpec) measure { return number(s.MaxBackups) }},
		{"spec.waitForFinalSnapshot.timeout", "", "8760h", func(s druidv1alpha1.EtcdCopyBackupsTaskSpec) measure {
			return duration(ptr.Deref(s.WaitForFinalSnapshot, druidv1alpha1.WaitForFinalSnapshotSpec{}).Timeout)
		}},
	},
	storeBounds("spec.sourceStore", func(s druidv1alpha1.EtcdCopyBackupsTaskSpec) druidv1alpha1.StoreSpec { return s.SourceStore }),
	storeBounds("spec.targetStore", func(s druidv1alpha1.EtcdCopyBackupsTaskSpec) druidv1alpha1.StoreSpec { return s.TargetStore }),
)

// OpsTaskBounds are the bounds of an EtcdOpsTask. Package opstask checks the points and the time limit of an inspection, which can be in an annotation.
var OpsTaskBounds = []Bound[druidv1alpha1.EtcdOpsTaskSpec]{
	{"spec.etcdName", "", "253", func(s druidv1alpha1.EtcdOpsTaskSpec) measure { return length(s.EtcdName) }},
	{"spec.ttlSecondsAfterFinished", "1", "2147483647", func(s druidv1alpha1.EtcdOpsTaskSpec) measure { return number(s.TTLSecondsAfterFinished) }},
	{"spec.config.onDemandSnapshot.timeoutSecondsDelta", "10", "86400", func(s druidv1alpha1.EtcdOpsTaskSpec) measure {
		return number(ptr.Deref(s.Config.OnDemandSnapshot, druidv1alpha1.OnDemandSnapshotConfig{}).TimeoutSecondsDelta)
	}},
	{"spec.config.onDemandSnapshot.timeoutSecondsFull", "120", "86400", func(s druidv1alpha1.EtcdOpsTaskSpec) measure {
		return number(ptr.Deref(s.Config.OnDemandSnapshot, druidv1alpha1.OnDemandSnapshotConfig{}).TimeoutSecondsFull)
	}},
}

// storeBounds are the bounds of a store at a path.
func storeBounds[Spec any](path string, store func(Spec) druidv1alpha1.StoreSpec) []Bound[Spec] {
	return []Bound[Spec]{
		{path + ".container", "", "63", func(s Spec) measure { return length(store(s).Container) }},
		{path + ".endpointOverride", "", "2048", func(s Spec) measure { return length(store(s).EndpointOverride) }},
		{path + ".prefix", "", "512", func(s Spec) measure { return length(new(store(s).Prefix)) }},
		{path + ".provider", "", "64", func(s Spec) measure { return length((*string)(store(s).Provider)) }},
		{path + ".backupEntryRef.name", "1", "253", func(s Spec) measure {
			if reference := store(s).BackupEntryRef; reference != nil {
				return length(&reference.Name)
			}

			return measure{}
		}},
	}
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
			earlier := bound.measure(known)
			add(before != nil && earlier.compare != nil && earlier.text == value.text, bound.check(value))
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

func (b Bound[Spec]) check(value measure) field.ErrorList {
	path, unit := field.NewPath(b.Path), ""
	switch {
	case value.isText && b.Most != "" && value.compare(b.Most) > 0:
		return field.ErrorList{field.TooLong(path, "", int(integer(b.Most)))}
	case value.isText:
		unit = " characters"
	case strings.HasSuffix(value.text, "m"):
		unit = "; m is milli, and Mi is 1024 × 1024"
	}
	switch {
	case b.Least != "" && value.compare(b.Least) < 0:
		return field.ErrorList{field.Invalid(path, value.text, "must be at least "+b.Least+unit)}
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

	return measure{text: value.String(), compare: func(limit string) int { return value.Cmp(resource.MustParse(limit)) }}
}

func duration(value *metav1.Duration) measure {
	if value == nil {
		return measure{}
	}

	return measure{text: value.Duration.String(), compare: func(limit string) int {
		parsed, _ := time.ParseDuration(limit) // a constant

		return cmp.Compare(value.Duration, parsed)
	}}
}

func number[T int32 | int64 | uint32](value *T) measure {
	if value == nil {
		return measure{}
	}

	return measure{text: strconv.FormatInt(int64(*value), 10), compare: func(limit string) int { return cmp.Compare(int64(*value), integer(limit)) }}
}

func length(text *string) measure {
	if text == nil {
		return measure{}
	}

	return measure{text: *text, isText: true, compare: func(limit string) int { return cmp.Compare(int64(utf8.RuneCountInString(*text)), integer(limit)) }}
}

func integer(limit string) int64 {
	parsed, _ := strconv.ParseInt(limit, 10, 64) // a constant

	return parsed
}
