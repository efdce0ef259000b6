// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	containerv1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// referenceAnnotation is the annotation of an OCI archive with the tag of the image, or with its complete name.
const referenceAnnotation = "org.opencontainers.image.ref.name"

// Repack reads a docker archive or an OCI archive with one image for this machine. It writes the image to a docker archive
// in dir, and returns the path and the only name of the image. The name consists of the repository, the tag in the archive and a
// part of the digest. An archive need not have a tag. Different images therefore have different names, and no name has the tag `latest`.
func Repack(archive, repository, dir string) (file, reference string, err error) {
	img, tag, remove, err := open(archive)
	if err == nil {
		defer remove()

		file, reference, err = pack(img, repository, tag, dir)
	}

	if err != nil {
		return "", "", fmt.Errorf("the image archive %s: %w", archive, err)
	}

	return file, reference, nil
}

func pack(img containerv1.Image, repository, tag, dir string) (file, reference string, err error) {
	digest, err := img.Digest()
	if err != nil {
		return "", "", err
	}

	unique := strings.TrimPrefix(tag+"-"+digest.Hex[:12], "-")

	named, err := name.NewTag(repository + ":" + unique)
	if err != nil {
		return "", "", err
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}

	file = filepath.Join(dir, filepath.Base(repository)+"-"+unique+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, named.String(), nil
	}

	unfinished := fmt.Sprintf("%s.%d.unfinished", file, os.Getpid())
	defer func() { _ = os.Remove(unfinished) }()

	if err := tarball.WriteToFile(unfinished, named, img); err != nil {
		return "", "", err
	}

	return file, named.String(), os.Rename(unfinished, file)
}

// open returns the image of the archive and its tag. The tag is empty if the archive contains none. The image can be read until
// remove is called.
func open(archive string) (img containerv1.Image, tag string, remove func(), err error) {
	opener := func() (io.ReadCloser, error) { return os.Open(archive) } // #nosec G304 -- the archive of the user

	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return openOCI(archive)
	}

	if len(manifest) != 1 {
		return nil, "", nil, fmt.Errorf("it contains %d images; create an archive with one image", len(manifest))
	}

	if len(manifest[0].RepoTags) > 0 {
		tag = tagOf(manifest[0].RepoTags[0])
	}

	if img, err = tarball.Image(opener, nil); err != nil {
		return nil, "", nil, err
	}

	return img, tag, func() {}, checkArchitecture(img)
}

func checkArchitecture(img containerv1.Image) error {
	config, err := img.ConfigFile()
	if err == nil && config.Architecture != runtime.GOARCH {
		err = fmt.Errorf("its image is for the architecture %s, and this machine has %s", config.Architecture, runtime.GOARCH)
	}

	return err
}

// openOCI returns the image of an OCI archive, which it extracts into a temporary directory.
func openOCI(archive string) (img containerv1.Image, tag string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "oci-archive-*")
	if err != nil {
		return nil, "", nil, err
	}

	remove = func() { _ = os.RemoveAll(dir) }

	if img, tag, err = readOCI(archive, dir); err != nil {
		remove()
	}

	return img, tag, remove, err
}

func readOCI(archive, dir string) (containerv1.Image, string, error) {
	if err := extract(archive, dir); err != nil {
		return nil, "", err
	}

	index, err := layout.ImageIndexFromPath(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", errors.New("it is neither a docker archive (manifest.json) nor an OCI archive (index.json)")
	}

	if err != nil {
		return nil, "", err
	}

	img, tag, err := imageFor(index, runtime.GOARCH)
	if err != nil {
		return nil, "", err
	}

	return img, tag, checkArchitecture(img)
}

// imageFor returns the only image of the index for Linux with the architecture, and its tag.
func imageFor(index containerv1.ImageIndex, architecture string) (containerv1.Image, string, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, "", err
	}

	if len(manifest.Manifests) == 1 && manifest.Manifests[0].MediaType.IsIndex() {
		nested, err := index.ImageIndex(manifest.Manifests[0].Digest)
		if err != nil {
			return nil, "", err
		}

		img, tag, err := imageFor(nested, architecture)
		if tag == "" {
			tag = tagOf(manifest.Manifests[0].Annotations[referenceAnnotation])
		}

		return img, tag, err
	}

	images := slices.DeleteFunc(manifest.Manifests, func(d containerv1.Descriptor) bool {
		return !d.MediaType.IsImage() || d.Platform != nil && d.Platform.Architecture != architecture
	})
	if len(images) != 1 {
		return nil, "", fmt.Errorf("it contains %d images for %s; create an archive with one", len(images), architecture)
	}

	img, err := index.Image(images[0].Digest)

	return img, tagOf(images[0].Annotations[referenceAnnotation]), err
}

// tagOf returns the tag of a reference, or the reference itself if it is only a tag. The tag of a digest is empty.
func tagOf(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if i := strings.LastIndex(reference, ":"); i > strings.LastIndex(reference, "/") {
		return reference[i+1:]
	}

	if strings.Contains(reference, "/") {
		return ""
	}

	return reference
}

// extract writes the regular files of the archive to the directory.
func extract(archive, dir string) error {
	file, err := os.Open(archive) // #nosec G304 -- the archive of the user
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()

	root, err := os.OpenRoot(dir) // refuses paths outside of the directory
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()

	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return fmt.Errorf("it is no tar file: %w", err)
		}

		if header.Typeflag != tar.TypeReg {
			continue
		}

		if err := extractFile(root, filepath.Clean(header.Name), reader); err != nil {
			return err
		}
	}
}

func extractFile(root *os.Root, path string, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}

	out, err := root.Create(path)
	if err != nil {
		return err
	}

	_, err = io.Copy(out, content)

	return errors.Join(err, out.Close())
}
