// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
)

// discardedBytes returns the size of the data after the last record in the last file of a log. The file ends with zeros, since etcd allocates it.
// An incomplete earlier file is an error, because the next file continues its checksum.
func discardedBytes(dir string) (int64, error) {
	names, err := fileutil.ReadDir(dir, fileutil.WithExt(".wal"))
	if err != nil {
		return 0, fmt.Errorf("%w: reading %s: %w", ErrUnreadable, dir, err)
	}
	// The names are sorted.
	file, err := os.Open(filepath.Join(dir, names[len(names)-1])) // #nosec G304 -- a file of the directory
	if err != nil {
		return 0, fmt.Errorf("%w: opening %s: %w", ErrUnreadable, dir, err)
	}
	defer func() { _ = file.Close() }() // opened read-only

	decoder := wal.NewDecoder(fileutil.NewFileReader(file))
	record := &walpb.Record{}
	for err = decoder.Decode(record); err == nil; err = decoder.Decode(record) {
		if record.Type == wal.CrcType {
			decoder.UpdateCRC(record.Crc)
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, fmt.Errorf("%w: reading %s: %w", ErrUnreadable, file.Name(), err)
	}
	end, err := lastByte(file, decoder.LastOffset())
	if err != nil {
		return 0, fmt.Errorf("%w: reading %s: %w", ErrUnreadable, file.Name(), err)
	}

	return end - decoder.LastOffset(), nil
}

// lastByte returns the offset after the last byte of a file that is not zero, or the given one.
func lastByte(file *os.File, from int64) (int64, error) {
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return 0, err
	}
	end, offset, buffer := from, from, make([]byte, 1<<16)
	for {
		n, err := file.Read(buffer)
		for i, value := range buffer[:n] {
			if value != 0 {
				end = offset + int64(i) + 1
			}
		}
		offset += int64(n)
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
