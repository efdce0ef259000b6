// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package image packs programs into container images without a registry and without a base image. An image has one layer and is written as a
// docker archive. Equal input gives equal bytes.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
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
	// Directories are created empty. /tmp and /etc always exist.
	Directories []Directory
	// Links maps the path of a symbolic link to its target.
	Links map[string]string
}

// File is the path of a file on this machine and its absolute path in the image.
type File struct{ Source, Target string }

// Directory is an empty directory of the image.
type Directory struct {
	Path string
	Mode int64
	// Owner is the user ID and the group ID.
	Owner int
}

// Pack writes the image to the file as a docker archive.
func Pack(s Spec, file string) error {
	tags := make([]name.Tag, 0, 1+len(s.Aliases))
	for _, reference := range slices.Concat([]string{s.Tag}, s.Aliases) {
		tag, err := name.NewTag(reference)
		if err != nil {
			return fmt.Errorf("reading the image tag: %w", err)
		}

		tags = append(tags, tag)
	}

	content, err := layer(s)
	if err != nil {
		return fmt.Errorf("packing %s: %w", s.Tag, err)
	}

	// The layer is not compressed, since only the nodes on this machine read it.
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(content, types.DockerUncompressedLayer))
	if err != nil {
		return fmt.Errorf("packing %s: %w", s.Tag, err)
	}

	img, err = mutate.ConfigFile(img, config(s, img))
	if err != nil {
		return fmt.Errorf("describing %s: %w", s.Tag, err)
	}

	// Another command may be packing the same image.
	unfinished := fmt.Sprintf("%s.%d.unfinished", file, os.Getpid())
	defer func() { _ = os.Remove(unfinished) }()

	images := map[name.Tag]containerv1.Image{}
	for _, tag := range tags {
		images[tag] = img
	}

	if err := tarball.MultiWriteToFile(unfinished, images); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}

	return os.Rename(unfinished, file)
}

func config(s Spec, img containerv1.Image) *containerv1.ConfigFile {
	file, err := img.ConfigFile()
	if err != nil {
		file = &containerv1.ConfigFile{}
	}

	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Created = containerv1.Time{Time: time.Unix(0, 0).UTC()}
	file.Config = containerv1.Config{
		Entrypoint: s.Entrypoint,
		User:       s.User,
		Labels:     s.Labels,
		WorkingDir: "/",
		Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin:/"},
	}

	return file
}

// layer returns a tar stream. Parents come before their children. All timestamps are constant.
func layer(s Spec) ([]byte, error) {
	l := &layerWriter{made: map[string]bool{}}
	l.tar = tar.NewWriter(&l.buffer)

	l.directory(Directory{Path: "/tmp", Mode: 0o1777})
	l.directory(Directory{Path: "/etc", Mode: 0o755})
	l.content("/etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"))
	l.content("/etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n"))

	for _, d := range s.Directories {
		l.directory(d)
	}

	for _, f := range s.Files {
		content, err := os.ReadFile(f.Source)
		if err != nil {
			return nil, err
		}

		l.content(f.Target, 0o755, content)
	}

	for _, link := range sortedKeys(s.Links) {
		l.parents(link)
		l.header(tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(link, "/"), Linkname: s.Links[link], Mode: 0o777})
	}

	if l.err != nil {
		return nil, l.err
	}

	// Close writes the padding of the last file and the end of the archive.
	if err := l.tar.Close(); err != nil {
		return nil, err
	}

	return l.buffer.Bytes(), nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}

	slices.Sort(keys)

	return keys
}

// layerWriter stores the first error, so that its callers check for an error only once.
type layerWriter struct {
	buffer bytes.Buffer
	tar    *tar.Writer
	made   map[string]bool
	err    error
}

func (l *layerWriter) parents(file string) {
	if dir := path.Dir(file); dir != "/" && dir != "." {
		l.directory(Directory{Path: dir, Mode: 0o755})
	}
}

func (l *layerWriter) directory(d Directory) {
	if l.made[d.Path] {
		return
	}

	l.parents(d.Path)
	l.made[d.Path] = true
	l.header(tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(d.Path, "/") + "/", Mode: d.Mode, Uid: d.Owner, Gid: d.Owner})
}

func (l *layerWriter) content(target string, mode int64, content []byte) {
	l.parents(target)
	l.header(tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(target, "/"), Mode: mode, Size: int64(len(content))})

	if l.err == nil {
		_, l.err = io.Copy(l.tar, bytes.NewReader(content))
	}
}

func (l *layerWriter) header(h tar.Header) {
	h.ModTime = time.Unix(0, 0)

	if l.err == nil {
		l.err = l.tar.WriteHeader(&h)
	}
}
