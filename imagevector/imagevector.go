// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package imagevector has the images of the pods that the operator creates, one set for each minor version of etcd. What may not live here:
// the choice between these images and those that an Etcd names, and the choice of the version.
package imagevector

import (
	_ "embed"
	"fmt"

	"github.com/gardener/gardener/pkg/utils/imagevector"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

//go:embed images.yaml
var imagesYAML []byte

// Names of the images in images.yaml. The key of an image determines the version of etcd, because an overwrite may replace the tag and drops
// all labels. The keys are those of etcd-druid, so that overwrites that administrators have for it continue to work.
const (
	// NameEtcdWrapper is the image of the container that runs etcd 3.4.
	NameEtcdWrapper = "etcd-wrapper"
	// NameBackupRestore is the image of the sidecar and of the Jobs that read and write snapshots, for etcd 3.4.
	NameBackupRestore = "etcd-backup-restore"
	// NameEtcdWrapperNext is the image of the container that runs etcd 3.5.
	NameEtcdWrapperNext = "etcd-wrapper-next"
	// NameBackupRestoreNext is the image of the sidecar and of the Jobs that read and write snapshots, for etcd 3.5.
	NameBackupRestoreNext = "etcd-backup-restore-next"
	// NameInit is the image of the init container of pods with a Local store. All versions of etcd share it.
	NameInit = "init"
)

// names are the names of the images of one minor version of etcd.
type names struct{ wrapper, backupRestore string }

// NamesOf returns the names of the images of the wrapper and of the sidecar for a supported minor version of etcd. Empty: it has none.
func NamesOf(minor string) (wrapper, backupRestore string) {
	found := map[string]names{
		etcdversion.V34: {NameEtcdWrapper, NameBackupRestore},
		etcdversion.V35: {NameEtcdWrapperNext, NameBackupRestoreNext},
	}[minor]

	return found.wrapper, found.backupRestore
}

// Sets returns the built-in images by the minor version of etcd, one set for each supported version. Each image is a complete reference, for
// example `registry.example.com/etcd-wrapper:v1.2.3`. The file in the environment variable
// IMAGEVECTOR_OVERWRITE replaces the images that it names. Sets fails if that file cannot be read or is not an image vector, and if an
// image is in neither.
func Sets() (map[string]state.Images, error) {
	vector, caBundle, err := imagevector.Read(imagesYAML)
	if err != nil {
		return nil, fmt.Errorf("reading the built-in image vector: %w", err)
	}

	vector, _, err = imagevector.WithEnvOverride(vector, caBundle, imagevector.OverrideEnv)
	if err != nil {
		return nil, fmt.Errorf("reading the image vector of the environment variable %s: %w", imagevector.OverrideEnv, err)
	}

	sets := map[string]state.Images{}

	for _, minor := range etcdversion.Supported() {
		wrapper, backupRestore := NamesOf(minor)

		found, err := imagevector.FindImages(vector, []string{wrapper, backupRestore, NameInit})
		if err != nil {
			return nil, fmt.Errorf("finding the images of etcd %s: %w", minor, err)
		}

		sets[minor] = state.Images{EtcdWrapper: found[wrapper].String(), BackupRestore: found[backupRestore].String(), Init: found[NameInit].String()}
	}

	return sets, nil
}
