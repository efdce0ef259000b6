// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package archive packs files reproducibly. Equal files and an equal time result in equal bytes: an archive contains no owner, and
// no time of the machine. The package does not read the clock.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// File is a file of an archive.
type File struct {
	// Name is the path in the archive, with slashes.
	Name string
	// Executable sets the permissions 0755 instead of 0644.
	Executable bool
	Content    []byte
}

// Directory returns the files below a directory in the order of their names. The names begin with the name of the directory. It omits
// .helmignore, as Helm does.
func Directory(parent, name string) ([]File, error) {
	var files []File
	root := filepath.Join(parent, name)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".helmignore" {
			return err
		}
		content, err := os.ReadFile(file) // #nosec G304 G122 -- a file of the repository
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		files = append(files, File{Name: path.Join(name, filepath.ToSlash(relative)), Content: content})

		return err
	})

	return files, err
}

// TarGz returns a compressed tar archive of the files in their order. The zero time is the start of 1970.
func TarGz(files []File, modified time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	writer := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Name, Size: int64(len(file.Content)), Mode: int64(file.mode()), ModTime: modified}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}

	return buffer.Bytes(), nil
}

// Zip returns a zip archive of the files in their order.
func Zip(files []File, modified time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	writer := zip.NewWriter(&buffer)
	writer.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	for _, file := range files {
		// Without UTC, the archive would contain the time zone of the machine.
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: modified.UTC()}
		header.SetMode(file.mode())
		out, err := writer.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := out.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}

	return buffer.Bytes(), nil
}

func (f File) mode() fs.FileMode {
	if f.Executable {
		return 0o755
	}

	return 0o644
}
