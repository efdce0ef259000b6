// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFull writes the database in a file as a full snapshot into an existing directory, with its hash at the end. The snapshot appears when it
// is complete. It does not replace another file.
func WriteFull(dir string, name Name, database string) (err error) {
	source, err := os.Open(database) // #nosec G304 -- a path in the directory of the command
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer func() { _ = source.Close() }() // opened read-only
	file, err := os.CreateTemp(dir, ".full-")
	if err != nil {
		return fmt.Errorf("creating the snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	if err := errors.Join(writeFull(file, source, name.Compression), file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing the snapshot: %w", err)
	}
	// A link fails if the file exists.
	if err := os.Link(file.Name(), filepath.Join(dir, name.String())); err != nil {
		return fmt.Errorf("writing the snapshot: %w", err)
	}

	return nil
}

// writeFull writes a database and its hash.
func writeFull(file io.Writer, database io.Reader, compression string) error {
	switch compression {
	case "":
		return appendHash(file, database)
	case gzipExtension:
		writer := gzip.NewWriter(file)

		return errors.Join(appendHash(writer, database), writer.Close())
	default:
		return fmt.Errorf("compression %q is not supported: use %q, or none", compression, gzipExtension)
	}
}

func appendHash(file io.Writer, database io.Reader) error {
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, hash), database)
	if err != nil {
		return err
	}
	if size == 0 || size%512 != 0 {
		return fmt.Errorf("the database has %d bytes, which is not a multiple of 512", size)
	}
	_, err = file.Write(hash.Sum(nil))

	return err
}
