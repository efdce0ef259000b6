// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package image packs programs into container images without a registry and without a base image. An image has one layer and is written as a
// docker archive. Equal input gives equal bytes.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	containerv1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Nonroot is the user ID of pods that do not run as root.
const Nonroot = 65532

// nonroot is the user and the group of images that do not run as root.
var nonroot = fmt.Sprintf("%d:%d", Nonroot, Nonroot)

// Spec is the content of an image.
type Spec struct {
	// Tag is name:tag. The tag must not be `latest`, since the kubelet would try to pull the image.
	Tag string
	// Aliases are further names of the image. Nil means none.
	Aliases []string
	// Entrypoint is the command and its first arguments.
	Entrypoint []string
	// User is uid:gid. Empty means root.
	User string
	// Labels are the labels of the image. Nil means none.
	Labels map[string]string
	// Files are copied into the image with mode 0755.
	Files []File
	// Links maps the path of a symbolic link to its target. Nil means none.
	Links map[string]string
}

// File is the path of a file on this machine and its absolute path in the image.
type File struct{ Source, Target string }

// Pack writes the image to the file as a docker archive.
func Pack(s Spec, file string) error {
	content, err := layer(s)
	if err != nil {
		return fmt.Errorf("packing %s: %w", s.Tag, err)
	}

	// The layer is not compressed, since only the nodes on this machine read it.
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(content, types.DockerUncompressedLayer))
	if err != nil {
		return fmt.Errorf("packing %s: %w", s.Tag, err)
	}

	config, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("packing %s: %w", s.Tag, err)
	}

	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", runtime.GOARCH, containerv1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config = containerv1.Config{
		Entrypoint: s.Entrypoint, User: s.User, Labels: s.Labels, WorkingDir: "/", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/"},
	}

	if img, err = mutate.ConfigFile(img, config); err != nil {
		return fmt.Errorf("describing %s: %w", s.Tag, err)
	}

	return write(img, file, append([]string{s.Tag}, s.Aliases...)...)
}

// write writes the image with the names to the file. Another command may be writing the same image.
func write(img containerv1.Image, file string, names ...string) error {
	images := map[name.Tag]containerv1.Image{}

	for _, reference := range names {
		tag, err := name.NewTag(reference)
		if err != nil {
			return fmt.Errorf("reading the image tag: %w", err)
		}

		images[tag] = img
	}

	unfinished := fmt.Sprintf("%s.%d.unfinished", file, os.Getpid())
	defer func() { _ = os.Remove(unfinished) }()

	if err := tarball.MultiWriteToFile(unfinished, images); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}

	return os.Rename(unfinished, file)
}

// layer returns a tar stream. All timestamps are constant. The container runtime creates parent directories that the stream does not contain.
func layer(s Spec) ([]byte, error) {
	var buffer bytes.Buffer

	stream := tar.NewWriter(&buffer)
	add := func(header tar.Header, content []byte) error {
		header.Name, header.ModTime, header.Size = strings.TrimPrefix(header.Name, "/"), time.Unix(0, 0), int64(len(content))
		if err := stream.WriteHeader(&header); err != nil {
			return err
		}

		_, err := stream.Write(content)

		return err
	}

	if err := errors.Join(
		add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil),
		// The sidecar and the wrapper write to the home directory.
		add(tar.Header{Typeflag: tar.TypeDir, Name: "home/nonroot/", Mode: 0o700, Uid: Nonroot, Gid: Nonroot}, nil),
		add(tar.Header{Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")),
		add(tar.Header{Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\nnonroot:x:65532:\n")),
	); err != nil {
		return nil, err
	}

	for _, f := range s.Files {
		content, err := os.ReadFile(f.Source)
		if err != nil {
			return nil, err
		}

		if err := add(tar.Header{Name: f.Target, Mode: 0o755}, content); err != nil {
			return nil, err
		}
	}

	for _, link := range slices.Sorted(maps.Keys(s.Links)) {
		if err := add(tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: s.Links[link], Mode: 0o777}, nil); err != nil {
			return nil, err
		}
	}

	err := stream.Close() // writes the padding of the last file and the end of the archive

	return buffer.Bytes(), err
}
