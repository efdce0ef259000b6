// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
)

// Tags of the images on every seed. The tag of a wrapper is its version of etcd.
const (
	PauseTag         = "seed.local/pause:1"
	CorednsTag       = "seed.local/coredns:1"
	BackupRestoreTag = "seed.local/etcd-backup-restore:v0.33.0"
	EtcdWrapper34Tag = "seed.local/etcd-wrapper:v3.4.34"
	EtcdWrapper35Tag = "seed.local/etcd-wrapper:v3.5.24"
	InitTag          = "seed.local/busybox:1"
	ObjectStoreTag   = "seed.local/object-store:1"
	// OperatorRepository is the repository of the operator's image. The tag is a hash of the binaries, so that a new
	// binary is a new image.
	OperatorRepository = "seed.local/gardener-extension-etcd-druid"
)

// Names of images in manifests of the first release. The nodes of a seed cannot pull images.
const (
	firstBackupRestore = "europe-docker.pkg.dev/gardener-project/public/gardener/etcdbrctl:v0.25.0"
	firstEtcdWrapper   = "europe-docker.pkg.dev/gardener-project/public/gardener/etcd-wrapper:v0.1.0"
)

// busyboxCommands are the commands in the image of busybox.
var busyboxCommands = []string{
	"sh", "chown", "chmod", "mkdir", "ls", "cat", "cp", "mv", "rm", "sleep", "echo", "env", "id", "ps", "wget", "nslookup", "nc", "ip",
	"kill", "touch", "grep", "sed", "awk", "tar", "df", "du", "dd", "date", "tail", "head", "find", "stat", "true", "false",
}

// Catalogue returns the images of every seed. The programs must have been built.
func Catalogue(b build.Builder) ([]Spec, error) {
	links := map[string]string{}

	for _, command := range busyboxCommands {
		links["/bin/"+command] = "/bin/busybox"
	}

	specs, err := withPrograms(b, map[string]Spec{
		build.Pause:         {Tag: PauseTag},
		build.Coredns:       {Tag: CorednsTag},
		build.BackupRestore: {Tag: BackupRestoreTag, Aliases: []string{firstBackupRestore}, User: nonroot},
		build.EtcdWrapper34: {Tag: EtcdWrapper34Tag, Aliases: []string{firstEtcdWrapper}, User: nonroot},
	})

	return append(specs, Spec{Tag: InitTag, Entrypoint: []string{"/bin/sh"}, Files: []File{{Source: "/bin/busybox", Target: "/bin/busybox"}}, Links: links}), err
}

// TestCatalogue returns the images that only tests need. The programs must have been built.
func TestCatalogue(b build.Builder) ([]Spec, error) {
	return withPrograms(b, map[string]Spec{
		build.EtcdWrapper35: {Tag: EtcdWrapper35Tag, User: nonroot},
		build.ObjectStore:   {Tag: ObjectStoreTag, User: nonroot},
	})
}

// LandscapeCatalogue returns the images with which gardenlet deploys a seed and the control plane of a Shoot. gardenlet calls the Kubernetes
// programs by their paths in the images of Kubernetes. The programs must have been built.
func LandscapeCatalogue(b build.Builder) ([]Spec, error) {
	var specs []Spec

	for _, p := range []struct{ module, name, version string }{
		{build.Gardener, "gardenlet", build.GardenerVersion},
		{build.Gardener, "gardener-extension-provider-local", build.GardenerVersion},
		{build.ResourceManager, "gardener-resource-manager", build.GardenerVersion},
		{build.Kubernetes, "kube-apiserver", build.KubernetesVersion},
		{build.Kubernetes, "kube-controller-manager", build.KubernetesVersion},
	} {
		path, err := b.Program(p.module, p.name)
		if err != nil {
			return nil, err
		}

		spec := Spec{Tag: "seed.local/" + p.name + ":" + p.version, User: nonroot}.with(path)
		spec.Links = map[string]string{"/usr/local/bin/" + p.name: spec.Entrypoint[0]}
		specs = append(specs, spec)
	}

	return specs, nil
}

// Program returns the image of a wrapper or a sidecar with the program as its entrypoint.
func Program(program, reference string) Spec {
	return Spec{Tag: reference, User: nonroot}.with(program)
}

// with returns the image with the program as its only file and entrypoint.
func (s Spec) with(program string) Spec {
	target := "/" + filepath.Base(program)
	s.Entrypoint, s.Files = []string{target}, []File{{Source: program, Target: target}}

	return s
}

// withPrograms returns the images with the only program of each module.
func withPrograms(b build.Builder, images map[string]Spec) ([]Spec, error) {
	var specs []Spec

	for _, module := range build.Catalogue() {
		spec, selected := images[module.Name]
		if !selected {
			continue
		}

		for name := range module.Programs {
			path, err := b.Program(module.Name, name)
			if err != nil {
				return nil, err
			}

			specs = append(specs, spec.with(path))
		}
	}

	return specs, nil
}

// operatorPrograms are the programs in the operator's image. The first one is the entrypoint.
var operatorPrograms = []string{"gardener-extension-etcd-druid", "etcd-helper"}

// Operator returns the image with the programs in the directory. It is the image of the Dockerfile in the root directory, but
// without the base.
func Operator(dir string) (Spec, error) {
	var files []File

	sum := sha256.New()

	for _, name := range operatorPrograms {
		path := filepath.Join(dir, name)

		content, err := os.ReadFile(path)
		if err != nil {
			return Spec{}, fmt.Errorf("reading a program of the operator's image: %w", err)
		}

		_, _ = sum.Write(content)

		files = append(files, File{Source: path, Target: "/" + name})
	}

	return Spec{
		Tag:        OperatorRepository + ":" + hex.EncodeToString(sum.Sum(nil))[:12],
		Entrypoint: []string{files[0].Target},
		User:       nonroot,
		Labels: map[string]string{
			"org.opencontainers.image.title":    "gardener-extension-etcd-druid",
			"org.opencontainers.image.source":   "https://github.com/gardener/gardener-extension-etcd-druid",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
		Files: files,
	}, nil
}

// EnsureAll packs the images whose archives the directory does not contain, and returns the paths of all archives. It removes other archives
// from the directory.
func EnsureAll(specs []Spec, dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the directory of the images: %w", err)
	}

	var archives []string

	for _, s := range specs {
		key, err := s.key()
		if err != nil {
			return nil, err
		}

		file := filepath.Join(dir, key+".tar")
		if _, err := os.Stat(file); err != nil {
			if err := Pack(s, file); err != nil {
				return nil, err
			}
		}

		archives = append(archives, file)
	}

	others, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return nil, err
	}

	for _, file := range others {
		if !slices.Contains(archives, file) {
			if err := os.Remove(file); err != nil {
				return nil, fmt.Errorf("removing an old archive: %w", err)
			}
		}
	}

	return archives, nil
}

// key is a hash of the description and of the size of each file. It does not hash the contents, because the description
// already identifies them. The directories of the programs are named after their contents. The operator's tag is a hash of
// its binary. busybox comes from a package.
func (s Spec) key() (string, error) {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%+v\n", s)

	for _, f := range s.Files {
		info, err := os.Stat(f.Source)
		if err != nil {
			return "", fmt.Errorf("packing %s: %w", s.Tag, err)
		}

		_, _ = fmt.Fprintf(hash, "%d\n", info.Size())
	}

	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// SplitTag splits name:tag.
func SplitTag(reference string) (repository, tag string, err error) {
	repository, tag, found := strings.Cut(reference, ":")
	if !found {
		return "", "", fmt.Errorf("image %q has no tag", reference)
	}

	return repository, tag, nil
}
