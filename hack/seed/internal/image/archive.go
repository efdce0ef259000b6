// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Repack reads a docker archive with one image for this machine. It writes the image to a docker archive in dir, and returns the path and the
// only name of the image. The name consists of the repository, the tag in the archive and a part of the digest. An archive need not have a
// tag. Different images therefore have different names, and no name has the tag `latest`.
func Repack(archive, repository, dir string) (file, reference string, err error) {
	if file, reference, err = repack(archive, repository, dir); err != nil {
		return "", "", fmt.Errorf("the image archive %s: %w", archive, err)
	}

	return file, reference, nil
}

func repack(archive, repository, dir string) (file, reference string, err error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) }) // #nosec G304 -- the archive of the user
	if err != nil {
		return "", "", fmt.Errorf("it is no docker archive: %w; convert it with `skopeo copy oci-archive:%s docker-archive:image.tar`", err, archive)
	}

	if len(manifest) != 1 {
		return "", "", fmt.Errorf("it contains %d images; create an archive with one image", len(manifest))
	}

	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return "", "", err
	}

	config, err := img.ConfigFile()
	if err != nil {
		return "", "", err
	}

	if config.Architecture != runtime.GOARCH {
		return "", "", fmt.Errorf("its image is for the architecture %s, and this machine has %s", config.Architecture, runtime.GOARCH)
	}

	digest, err := img.Digest()
	if err != nil {
		return "", "", err
	}

	unique := digest.Hex[:12]

	if len(manifest[0].RepoTags) > 0 {
		tag, err := name.NewTag(manifest[0].RepoTags[0])
		if err != nil {
			return "", "", err
		}

		unique = tag.TagStr() + "-" + unique
	}

	file, reference = filepath.Join(dir, filepath.Base(repository)+"-"+unique+".tar"), repository+":"+unique
	if _, err := os.Stat(file); err == nil {
		return file, reference, nil
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}

	return file, reference, write(img, file, reference)
}
