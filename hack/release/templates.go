// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

const homepage = "https://github.com/gardener/gardener-extension-etcd-druid"

//go:embed *.tmpl
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"sha256": func(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) },
}).ParseFS(templateFiles, "*.tmpl"))

// links are those of the changelog, which are relative to the root of the repository.
var links = regexp.MustCompile(`\]\(([^):#]+)([^):]*)\)`)

// render writes a file that describes the files of the release: the krew manifest, the release notes, or the checksums. The release notes
// contain the section of the version in the changelog.
func (r release) render(name string, files map[string][]byte) ([]byte, error) {
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md")) // #nosec G304 -- a file of the repository
	if err != nil {
		return nil, err
	}
	changes, err := section(string(changelog), r.version)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = templates.ExecuteTemplate(&text, name+".tmpl", map[string]any{
		"Version": r.version, "Homepage": homepage, "Platforms": r.platforms, "Files": files,
		"Changes": links.ReplaceAllString(changes, fmt.Sprintf("](%s/blob/%s/$1$2)", homepage, r.version)),
	})

	return text.Bytes(), err
}

// section returns the section of a version in the changelog, without its heading. A prerelease has the section of its version.
func section(changelog, version string) (string, error) {
	release, _, _ := strings.Cut(version, "-")
	_, rest, found := strings.Cut(changelog, "\n## "+release+"\n")
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section %q: add it", "## "+release)
	}
	text, _, _ := strings.Cut(rest, "\n## ")

	return strings.TrimSpace(text), nil
}
