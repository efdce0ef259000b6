// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
)

// archive packs the folder of a chart as Helm does. Equal files give equal bytes: they come in the order of their names, and
// neither a clock nor an owner leaves a trace.
func archive(parent, chart string) ([]byte, error) {
	var buffer bytes.Buffer

	compressed, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	files := tar.NewWriter(compressed)

	// WalkDir goes by the order of names.
	err = filepath.WalkDir(filepath.Join(parent, chart), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".helmignore" {
			return err
		}
		content, err := os.ReadFile(path) // #nosec G304 G122 -- a file of the repository
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(parent, path)
		if err != nil {
			return err
		}
		if err := files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(relative), Size: int64(len(content)), Mode: 0o644}); err != nil {
			return err
		}
		_, err = files.Write(content)

		return err
	})
	if err != nil {
		return nil, err
	}
	if err := files.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}

	return buffer.Bytes(), nil
}
