// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"bytes"
	"compress/gzip"
	"compress/lzw"
	"compress/zlib"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ErrDamaged means that the content of a snapshot is not what the sidecar wrote.
var ErrDamaged = errors.New("the snapshot is damaged")

// lzwWidth is the number of bits of a literal with which the sidecar compresses.
const lzwWidth = 8

// File is a snapshot in a directory.
type File struct {
	Name
	// Path of the file.
	Path string
}

// open returns the content of the file without its compression.
func (f File) open() (io.ReadCloser, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, fmt.Errorf("opening the snapshot: %w", err)
	}
	var content io.Reader = file
	switch f.Compression {
	case gzipExtension:
		content, err = gzip.NewReader(file)
	case zlibExtension:
		content, err = zlib.NewReader(file)
	case lzwExtension:
		content = lzw.NewReader(file, lzw.LSB, lzwWidth)
	}
	if err != nil {
		_ = file.Close() // opened read-only

		return nil, f.damaged("decompressing it: %w", err)
	}

	return struct {
		io.Reader
		io.Closer
	}{content, file}, nil
}

// damaged returns an ErrDamaged for the file.
func (f File) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w; use another copy of it, or an earlier revision", ErrDamaged, filepath.Base(f.Path), fmt.Errorf(format, args...))
}

// Database writes the database of a full snapshot into a new file, and verifies the hash at its end. A file with wrong content is removed.
func (f File) Database(path string) (err error) {
	content, err := f.open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()                                 // opened read-only
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- a path in the directory of the command
	if err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()

	size, err := f.copy(file, content)
	if err != nil {
		return err
	}

	return f.removeHash(file, size)
}

// copy copies the content. An error of the content means that it is damaged, and an error of the file does not.
func (f File) copy(file io.Writer, content io.Reader) (int64, error) {
	reader := &failing{Reader: content}
	size, err := io.Copy(file, reader)
	switch {
	case reader.err != nil:
		return 0, f.damaged("decompressing it: %w", reader.err)
	case err != nil:
		return 0, fmt.Errorf("writing the database: %w", err)
	default:
		return size, nil
	}
}

// failing keeps the error of a reader, to distinguish it from the error of a writer.
type failing struct {
	io.Reader
	err error
}

func (r *failing) Read(buffer []byte) (int, error) {
	n, err := r.Reader.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}

	return n, err
}

// removeHash verifies the hash at the end of a database, and removes it. etcd appends the hash to a database, whose size is a multiple of 512.
func (f File) removeHash(file *os.File, size int64) error {
	if size%512 != sha256.Size || size <= sha256.Size {
		return f.damaged("it has %d bytes, which is not a database with a SHA-256", size)
	}
	size -= sha256.Size
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the database: %w", err)
	}
	hash := sha256.New()
	if _, err := io.CopyN(hash, file, size); err != nil {
		return fmt.Errorf("reading the database: %w", err)
	}
	expected := make([]byte, sha256.Size)
	if _, err := io.ReadFull(file, expected); err != nil {
		return fmt.Errorf("reading the hash: %w", err)
	}
	if found := hash.Sum(nil); !bytes.Equal(found, expected) {
		return f.damaged("its SHA-256 is %x, and it was written with %x", found, expected)
	}
	if err := file.Truncate(size); err != nil {
		return fmt.Errorf("removing the hash: %w", err)
	}

	return file.Sync()
}
