// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package recorded contains data directories and backup stores that real etcds and sidecars wrote, and what these etcds reported. Only tests
// import it. testdata/record.sh records another version.
//
// What may not live here: expectations. The etcds reported all values.
package recorded

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed testdata
var files embed.FS

// Versions are the recorded versions of etcd. The sidecar of the first one is v0.41.2, and that of the second one v0.43.0.
var Versions = []string{"v3.4.34", "v3.5.27"}

// segmentBytes is the size of a file of the write-ahead log. etcd allocates it when it creates the file.
const segmentBytes = 64 * 1000 * 1000

// Key is a key as etcd returned it.
type Key struct {
	Key            []byte `json:"key"`
	Value          []byte `json:"value"`
	CreateRevision int64  `json:"create_revision"`
	ModRevision    int64  `json:"mod_revision"`
	Version        int64  `json:"version"`
	Lease          int64  `json:"lease,string,omitempty"`
}

// Point is what an etcd reported about a revision.
type Point struct {
	Revision        int64     `json:"revision"`
	CompactRevision int64     `json:"compactRevision"`
	Hash            uint32    `json:"hash"`
	Keys            []Key     `json:"keys"`
	Time            time.Time `json:"time"`
}

// Reported is what the etcds of a version reported.
type Reported struct {
	// Points are revisions of which the store has snapshots. They are compacted if etcd had compacted them.
	Points struct {
		// First is the end of a delta snapshot of the first full snapshot. BeforeTime is the same revision, with a time after its last event
		// and before the next one. A key of a lease expired before Middle. Compacted has revisions before and after a compaction. Last is
		// in a delta snapshot of the second full snapshot.
		First, BeforeTime, Middle, Compacted, Last Point
	}
	// Killed is what the etcd reported when it started again with the data directory `killed`.
	Killed Point
	// Survivor is the last revision that the members of `survivor` acknowledged. The log has one more write.
	Survivor Point
}

// Read returns what the etcds of a version reported.
func Read(version string) (Reported, error) {
	reported := Reported{}
	content, err := files.ReadFile("testdata/" + version + ".json")
	if err != nil {
		return reported, err
	}

	return reported, json.Unmarshal(content, &reported)
}

// file is a file of an archive. The zeros at its end are omitted: databases and logs mostly consist of them.
type file struct {
	name    string
	content []byte
	size    int64
}

// archives are the files that were read, by the version.
var archives sync.Map

// Unpack writes some of the directories store, restored, killed and survivor of a version into a directory.
func Unpack(version, dir string, names ...string) error {
	found, isRead := archives.Load(version)
	if !isRead {
		read, err := readArchive(version)
		if err != nil {
			return fmt.Errorf("reading the archive of %s: %w", version, err)
		}
		archives.Store(version, read)
		found = read
	}
	for _, file := range found.([]file) {
		if !slices.Contains(names, strings.Split(file.name, "/")[1]) {
			continue
		}
		if err := file.write(filepath.Join(dir, file.name)); err != nil {
			return fmt.Errorf("unpacking %s: %w", file.name, err)
		}
	}

	return nil
}

// readArchive reads the files of a version. Their names begin with a slash.
func readArchive(version string) ([]file, error) {
	compressed, err := files.Open("testdata/" + version + ".tar.gz")
	if err != nil {
		return nil, err
	}
	content, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, err
	}
	var found []file
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, err
		case header.Typeflag != tar.TypeReg:
			continue
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		size := int64(len(data))
		if strings.HasSuffix(header.Name, ".wal") {
			size = segmentBytes
		}
		found = append(found, file{name: path.Clean("/" + header.Name), content: bytes.Clone(bytes.TrimRight(data, "\x00")), size: size})
	}
}

// write writes a file with the zeros at its end.
func (f file) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, f.content, 0o600); err != nil {
		return err
	}

	return os.Truncate(path, f.size)
}
