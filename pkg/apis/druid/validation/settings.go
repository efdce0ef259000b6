// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// dataMountPath is where both containers mount the data volume.
const dataMountPath = "/var/etcd/data"

func validateEtcdConfig(etcd *druidv1alpha1.Etcd, spec *field.Path) field.ErrorList {
	config, etcdPath := etcd.Spec.Etcd, spec.Child("etcd")

	return slices.Concat(
		validateSchedule(config.DefragmentationSchedule, etcdPath.Child("defragmentationSchedule")),
		validateImage(config.Image, etcdPath.Child("image")),
		validateVersion(config.Version, etcdPath.Child("version")),
		validateToken(config.InitialClusterToken, etcdPath.Child("initialClusterToken")),
		validateRetention(etcd, spec.Child("sharedConfig", "autoCompactionRetention")),
	)
}

// validateToken rejects a text that the configuration of etcd, which is YAML, cannot contain. JSON, and so the API server, allows it.
func validateToken(token *string, path *field.Path) field.ErrorList {
	isForbidden := func(char rune) bool {
		return char >= 0x7f && char <= 0x9f && char != 0x85 || char == 0xfeff || char == 0xfffe || char == 0xffff
	}
	if token == nil || !strings.ContainsFunc(*token, isForbidden) {
		return nil
	}

	return field.ErrorList{field.Invalid(path, *token, "must not have control characters, because it is part of a YAML document: remove them")}
}

// validateVersion rejects versions of etcd for which the operator has no images. A CustomResourceDefinition of another version does not.
func validateVersion(version *string, path *field.Path) field.ErrorList {
	if version == nil || etcdversion.IsSupported(*version) {
		return nil
	}

	return field.ErrorList{field.NotSupported(path, *version, etcdversion.Supported())}
}

func validateBackup(etcd *druidv1alpha1.Etcd, backupPath *field.Path) field.ErrorList {
	backup := etcd.Spec.Backup
	errs := slices.Concat(
		validateImage(backup.Image, backupPath.Child("image")),
		validateSchedule(backup.FullSnapshotSchedule, backupPath.Child("fullSnapshotSchedule")),
		validateTempDir(backup.SnapstoreTempDir, backupPath.Child("snapstoreTempDir")),
	)
	if gc, delta := backup.GarbageCollectionPeriod, backup.DeltaSnapshotPeriod; gc != nil && delta != nil && gc.Duration <= delta.Duration {
		errs = append(errs, field.Invalid(backupPath.Child("garbageCollectionPeriod"), gc.Duration.String(), fmt.Sprintf("must be longer than spec.backup.deltaSnapshotPeriod, %s", delta.Duration)))
	}
	if backup.Store != nil {
		errs = append(errs, validateStore(*backup.Store, backupPath.Child("store"))...)
	}

	return errs
}

func validateStore(store druidv1alpha1.StoreSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if slices.Contains(strings.Split(store.Prefix, "/"), "..") {
		errs = append(errs, field.Invalid(path.Child("prefix"), store.Prefix, "must stay below the container: leave out the segments .."))
	}
	if store.SecretRef != nil && store.SecretRef.Name != "" {
		errs = append(errs, validateSecretName(store.SecretRef.Name, path.Child("secretRef"))...)
	}

	return append(errs, validateArgument(store.Prefix, path.Child("prefix"))...)
}

// validateArgument rejects a text that no process can have as an argument: no container runtime could start the container.
func validateArgument(text string, path *field.Path) field.ErrorList {
	if !strings.Contains(text, "\x00") {
		return nil
	}

	return field.ErrorList{field.Invalid(path, text, "must not have a NUL character, because it becomes an argument of a process: remove it")}
}

// validateSchedule uses the cron parser of the sidecar, which checks more than a pattern can: that a range ascends, and that
// Sunday is 0.
func validateSchedule(schedule *string, at *field.Path) field.ErrorList {
	if schedule == nil {
		return nil
	}
	if _, err := cron.ParseStandard(*schedule); err != nil {
		return field.ErrorList{field.Invalid(at, *schedule, fmt.Sprintf("the sidecar cannot read it: %v; it needs minute, hour, day of the month, month and day of the week (0 to 6, 0 is Sunday)", err))}
	}

	return nil
}

// validateRetention checks the retention of the etcd history according to its mode.
func validateRetention(etcd *druidv1alpha1.Etcd, at *field.Path) field.ErrorList {
	retention := helper.AutoCompactionRetention(etcd)
	if number, err := strconv.ParseInt(retention, 10, 64); err == nil && number >= 0 {
		return nil
	}
	if helper.AutoCompactionMode(etcd) == druidv1alpha1.Revision {
		return field.ErrorList{field.Invalid(at, retention, "must be a number of revisions, since spec.sharedConfig.autoCompactionMode is revision")}
	}
	if duration, err := time.ParseDuration(retention); err != nil || duration < 0 {
		return field.ErrorList{field.Invalid(at, retention, "must be a duration such as 30m, or a number of hours")}
	}

	return nil
}

func validateImage(image *string, at *field.Path) field.ErrorList {
	if image == nil || *image != "" {
		return nil
	}

	return field.ErrorList{field.Required(at, "name an image, or remove the field to take the operator's")}
}

// reservedNames are the files and directories in the data volume that etcd, etcd-wrapper, the sidecar and file systems use.
var reservedNames = []string{"new.etcd", "new.etcd.part", "restoration.temp", "safe_guard", "exit_code", "validation_marker", "lost+found"}

// validateTempDir refuses a directory with other content: newer versions of etcd-backup-restore, such as v0.41.2, delete the directory after
// each initialization.
func validateTempDir(dir *string, at *field.Path) field.ErrorList {
	if dir == nil {
		return nil
	}
	if errs := validateArgument(*dir, at); len(errs) > 0 {
		return errs
	}
	below, isBelow := strings.CutPrefix(path.Clean(*dir), dataMountPath+"/")
	if !isBelow {
		return field.ErrorList{field.Invalid(at, *dir, "must lie below "+dataMountPath+", the only volume that the sidecar can write large files to")}
	}
	if name, _, _ := strings.Cut(below, "/"); slices.Contains(reservedNames, name) {
		return field.ErrorList{field.Invalid(at, *dir, "must be a directory for temporary files only, for example "+dataMountPath+"/temp: the sidecar deletes the directory at each start, and "+name+" has another purpose")}
	}

	return nil
}
