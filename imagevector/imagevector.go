// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package imagevector knows the images of the pods that the operator makes. What may not live here: the choice between
// these images and those that an Etcd names, and versions of anything else.
package imagevector

import (
	_ "embed"
	"fmt"

	"github.com/gardener/gardener/pkg/utils/imagevector"
)

//go:embed images.yaml
var imagesYAML []byte

// Names of the images in images.yaml.
const (
	// NameEtcdWrapper is the image of the container that runs etcd.
	NameEtcdWrapper = "etcd-wrapper"
	// NameBackupRestore is the image of the sidecar and of the Jobs that compact and copy snapshots.
	NameBackupRestore = "etcd-backup-restore"
	// NameInit is the image of the init container of pods with a Local store.
	NameInit = "init"
)

// Set is one complete reference an image, for example `registry.example.com/etcd-wrapper:v1.2.3`.
type Set struct {
	// EtcdWrapper is the image of the container that runs etcd.
	EtcdWrapper string
	// BackupRestore is the image of the sidecar and of the Jobs that compact and copy snapshots.
	BackupRestore string
	// Init is the image of the init container of pods with a Local store.
	Init string
}

// Images returns the built-in images, with those replaced that the file named by the environment variable
// IMAGEVECTOR_OVERWRITE names. It fails where that file cannot be read or is not an image vector, and where an image is
// in neither.
func Images() (Set, error) {
	vector, caBundle, err := imagevector.Read(imagesYAML)
	if err != nil {
		return Set{}, fmt.Errorf("reading the built-in image vector: %w", err)
	}

	vector, _, err = imagevector.WithEnvOverride(vector, caBundle, imagevector.OverrideEnv)
	if err != nil {
		return Set{}, fmt.Errorf("reading the image vector of the environment variable %s: %w", imagevector.OverrideEnv, err)
	}

	found, err := imagevector.FindImages(vector, []string{NameEtcdWrapper, NameBackupRestore, NameInit})
	if err != nil {
		return Set{}, fmt.Errorf("looking up an image: %w", err)
	}

	return Set{
		EtcdWrapper:   found[NameEtcdWrapper].String(),
		BackupRestore: found[NameBackupRestore].String(),
		Init:          found[NameInit].String(),
	}, nil
}
