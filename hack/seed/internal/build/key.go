// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keyLength is the number of hexadecimal digits in the key of a build.
const keyLength = 12

// Key returns the key of a module's build. It changes with go.mod, go.sum, the sources without tests, the programs, the
// flags, the version of Go, and the shared module. It does not change with the sources of other modules in the same directory.
// The directory of all modules is modules.
func Key(modules string, m Module, goVersion string) (string, error) {
	hash := sha256.New()
	// Package fmt prints maps in the order of their keys.
	_, _ = fmt.Fprintf(hash, "%s\n%v\n%s\n", goVersion, m.Programs, m.LinkerFlags)

	if err := m.hashSources(hash, filepath.Join(modules, m.directory())); err != nil {
		return "", fmt.Errorf("hashing module %s: %w", m.Name, err)
	}

	if m.Shared != "" {
		if err := m.hashSources(hash, filepath.Join(modules, m.Shared)); err != nil {
			return "", fmt.Errorf("hashing the shared module of %s: %w", m.Name, err)
		}
	}

	return hex.EncodeToString(hash.Sum(nil))[:keyLength], nil
}

// hashSources writes the sources in the directory to the hash.
func (m Module) hashSources(hash io.Writer, dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && filepath.Dir(path) == dir && !m.hasSources(entry.Name()) {
			return filepath.SkipDir
		}

		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}

		content, err := os.ReadFile(path) // #nosec G122 -- a file of the repository
		if err != nil {
			return err
		}

		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}

		_, _ = fmt.Fprintf(hash, "%s %d\n", relative, len(content))
		_, _ = hash.Write(content)

		return nil
	})
}

func (m Module) directory() string { return cmp.Or(m.Directory, m.Name) }

// hasSources is true if a program of the module is built from the directory with the name, or from the one above it.
func (m Module) hasSources(directory string) bool {
	for _, pkg := range m.Programs {
		if pkg == "." || pkg == "./"+directory {
			return true
		}
	}

	return false
}
