// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/internal/archive"
)

const (
	plugin = "kubectl-etcd"
	chart  = "gardener-extension-etcd-druid"
	// krewManifest must have the name of the plugin.
	krewManifest = "etcd.yaml"
	checksums    = "SHA256SUMS"
	notes        = "release-notes.md"
)

// release describes the files to write.
type release struct {
	// root is the directory of the repository, and out the directory of the files.
	root, out string
	// version begins with v.
	version string
	// modified is the time in the archives.
	modified time.Time
	// platforms are those of the plugin.
	platforms []platform
	// programs are those of the image, for which there are only bills of materials.
	programs []program
}

// platform is an operating system and an architecture of Go.
type platform struct{ os, arch string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

// archiveName is the name of the archive of the plugin. It contains no version, so that workflows can name it.
func (p platform) archiveName() string {
	if p.os == "windows" {
		return fmt.Sprintf("%s-%s-%s.zip", plugin, p.os, p.arch)
	}

	return fmt.Sprintf("%s-%s-%s.tar.gz", plugin, p.os, p.arch)
}

// binary is the name of the plugin in the archive.
func (p platform) binary() string {
	if p.os == "windows" {
		return plugin + ".exe"
	}

	return plugin
}

// write replaces the content of the directory.
func (r release) write(ctx context.Context) error {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(r.version) {
		return fmt.Errorf("the version %q must have the form v1.2.3 or v1.2.3-suffix", r.version)
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, p := range r.platforms {
		content, err := r.pluginArchive(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.archiveName(), err)
		}
		files[p.archiveName()] = content
	}
	for _, p := range r.programs {
		content, err := r.programBillOfMaterials(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		files[p.name+billOfMaterialsSuffix] = content
	}
	for _, next := range []struct {
		name   string
		create func(map[string][]byte) ([]byte, error)
	}{
		{r.chartArchiveName(), r.chartArchive},
		{krewManifest, r.krewManifest},
		{notes, r.notes}, // they list the files above
	} {
		content, err := next.create(files)
		if err != nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
		files[next.name] = content
	}
	files[checksums] = sums(files)

	return writeAll(r.out, files)
}

// pluginArchive builds the plugin and packs it with its license and its bill of materials.
func (r release) pluginArchive(ctx context.Context, p platform) ([]byte, error) {
	directory, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	built := filepath.Join(directory, p.binary())
	if err := r.build(ctx, p, "-o", built, "./cmd/"+plugin); err != nil {
		return nil, err
	}
	materials, err := r.billOfMaterials(ctx, built)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(built) // #nosec G304 -- a file that this program has built
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	files := []archive.File{
		{Name: "LICENSE", Content: license},
		{Name: p.binary(), Executable: true, Content: content},
		{Name: plugin + billOfMaterialsSuffix, Content: materials},
	}
	if p.os == "windows" {
		return archive.Zip(files, r.modified)
	}

	return archive.TarGz(files, r.modified)
}

func (r release) chartArchiveName() string {
	return fmt.Sprintf("%s-%s.tgz", chart, strings.TrimPrefix(r.version, "v"))
}

var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// chartArchive packs the chart as `helm package --version --app-version` does, which writes the current time into the archive.
func (r release) chartArchive(map[string][]byte) ([]byte, error) {
	files, err := archive.Directory(filepath.Join(r.root, "charts"), chart)
	if err != nil {
		return nil, err
	}
	for i := range files {
		if files[i].Name == chart+"/Chart.yaml" {
			text := chartVersion.ReplaceAllString(string(files[i].Content), "version: "+strings.TrimPrefix(r.version, "v"))
			files[i].Content = []byte(appVersion.ReplaceAllString(text, "appVersion: "+r.version))
		}
	}

	return archive.TarGz(files, r.modified)
}

// sums has the format of sha256sum.
func sums(files map[string][]byte) []byte {
	text := &strings.Builder{}
	for _, name := range sortedNames(files) {
		fmt.Fprintf(text, "%x  %s\n", sha256.Sum256(files[name]), name)
	}

	return []byte(text.String())
}
