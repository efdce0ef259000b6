// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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

// platform is an operating system and an architecture of Go. The templates read its fields and methods.
type platform struct{ OS, Arch string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

// Archive is the name of the archive of the plugin. It contains no version, so that workflows can name it.
func (p platform) Archive() string {
	if p.OS == "windows" {
		return fmt.Sprintf("%s-%s-%s.zip", plugin, p.OS, p.Arch)
	}

	return fmt.Sprintf("%s-%s-%s.tar.gz", plugin, p.OS, p.Arch)
}

// Binary is the name of the plugin in the archive.
func (p platform) Binary() string {
	if p.OS == "windows" {
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
	built, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	files := map[string][]byte{}
	for _, p := range r.platforms {
		if files[p.Archive()], err = r.pluginArchive(ctx, p, filepath.Join(built, p.OS+p.Arch)); err != nil {
			return fmt.Errorf("%s: %w", p.Archive(), err)
		}
	}
	for _, p := range r.programs {
		if files[p.name+billOfMaterialsSuffix], err = r.programBillOfMaterials(ctx, p, filepath.Join(built, p.name)); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if files[fmt.Sprintf("%s-%s.tgz", chart, strings.TrimPrefix(r.version, "v"))], err = r.chartArchive(); err != nil {
		return fmt.Errorf("%s: %w", chart, err)
	}
	// Each of them describes the files before it.
	for _, name := range []string{krewManifest, notes, checksums} {
		if files[name], err = r.render(name, files); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	return writeAll(r.out, files)
}

// pluginArchive builds the plugin as the file built, and packs it with its license and its bill of materials.
func (r release) pluginArchive(ctx context.Context, p platform, built string) ([]byte, error) {
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
		{Name: p.Binary(), Executable: true, Content: content},
		{Name: plugin + billOfMaterialsSuffix, Content: materials},
	}
	if p.OS == "windows" {
		return archive.Zip(files, r.modified)
	}

	return archive.TarGz(files, r.modified)
}

var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// chartArchive packs the chart as `helm package --version --app-version` does, which writes the current time into the archive.
func (r release) chartArchive() ([]byte, error) {
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
