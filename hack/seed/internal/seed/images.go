// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

// Images are images that replace those of the seed, by their names in the operator's image vector. A value is the path of an
// archive, or the reference of an image that all nodes have. An image without an entry, or with an empty one, is the seed's.
type Images map[string]string

// ImageSettings maps the variables of the Makefile to the names of images in the operator's image vector. The flags of the
// commands have the names of the variables, in lower-case letters and with dashes.
var ImageSettings = []struct{ Variable, Image string }{
	{"WRAPPER", "etcd-wrapper"},
	{"SIDECAR", "etcd-backup-restore"},
	{"WRAPPER_NEXT", "etcd-wrapper-next"},
	{"SIDECAR_NEXT", "etcd-backup-restore-next"},
}

// loadImages loads the archives into every node and returns the references of all images.
func (s *Seed) loadImages(ctx context.Context, images Images) (map[string]string, error) {
	references := map[string]string{}

	for _, setting := range ImageSettings {
		value := images[setting.Image]
		if value == "" {
			continue
		}

		path := s.absolute(value)
		if !isArchive(value, path) {
			if err := s.checkLoaded(ctx, setting.Variable, value); err != nil {
				return nil, err
			}

			references[setting.Image] = value

			continue
		}

		file, reference, err := image.Repack(path, "seed.local/"+setting.Image, s.Layout.UserImages())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", setting.Variable, err)
		}

		s.Out.Println("%s is %s", setting.Variable, reference)

		if err := s.loadArchives(ctx, file); err != nil {
			return nil, err
		}

		references[setting.Image] = reference
	}

	return references, nil
}

// absolute returns the path of a file or a directory of the user. A relative path starts at the root of the checkout, where make runs.
func (s *Seed) absolute(value string) string {
	if filepath.IsAbs(value) {
		return value
	}

	return filepath.Join(s.Layout.Root, value)
}

// isArchive returns whether the value is an archive, which need not exist, and not a reference.
func isArchive(value, path string) bool {
	info, err := os.Stat(path)

	return err == nil && info.Mode().IsRegular() || filepath.IsAbs(value) || strings.HasPrefix(value, ".") || strings.HasSuffix(value, ".tar")
}

// checkLoaded returns an error with the remedy if a node does not have the image. The nodes cannot pull images.
func (s *Seed) checkLoaded(ctx context.Context, variable, reference string) error {
	for _, n := range s.existingNodes() {
		names, err := process.Output(ctx, "ctr", "-a", s.Layout.Socket(n), "-n", "k8s.io", "images", "list", "--quiet")
		if err != nil {
			return fmt.Errorf("listing the images of node %s: %w", n.Name(), err)
		}

		if !slices.Contains(strings.Fields(names), reference) {
			return missingImage(variable, reference, n.Name())
		}
	}

	return nil
}

func missingImage(variable, reference, node string) error {
	return fmt.Errorf("%[1]s=%[2]s: node %[3]s does not have this image, and the nodes of the local seed cannot pull images. "+
		"On a machine with access to the registry, write an archive: `skopeo copy docker://%[2]s docker-archive:image.tar`. Then set %[1]s=image.tar",
		variable, reference, node)
}

// PackProgram packs a program as an image of a wrapper or a sidecar into the file, a docker archive. The image has the user and
// the home directory of the seed's images.
func (s *Seed) PackProgram(program, reference, file string) error {
	return image.Pack(image.Program(program, reference), file)
}
