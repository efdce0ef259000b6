// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// Versions are the versions of the programs of one member.
type Versions struct {
	// Etcd is the version that the member reports, for example 3.5.27. Empty: the member does not respond, or reports no version.
	Etcd string
	// Wrapper and Sidecar are the tags, or else the digests, of the images in its pod. Empty: there is no pod, or the image has neither.
	Wrapper, Sidecar string
}

// Versions returns the versions of the programs of the member. A member can report arbitrary text: only a version is returned.
func (m Member) Versions() Versions {
	var versions Versions
	if m.Endpoint != nil {
		if version, err := utilversion.ParseSemantic(m.Endpoint.Version); err == nil {
			versions.Etcd = version.String()
		}
	}
	if m.Pod == nil {
		return versions
	}
	versions.Wrapper, versions.Sidecar = imageVersion(m.Pod.Image(ContainerEtcd)), imageVersion(m.Pod.Image(ContainerBackupRestore))

	return versions
}

// imageVersion returns the tag of an image, or else its digest.
func imageVersion(image string) string {
	name, digest, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], "@")
	if _, tag, has := strings.Cut(name, ":"); has {
		return tag
	}

	return digest
}
