// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// ErrNone means that a directory contains no full snapshot.
var ErrNone = errors.New("no full snapshot")

// Set is a full snapshot with the delta snapshots after it.
type Set struct {
	Full   File
	Deltas []File
}

// Sets returns the snapshots below a directory, as the sidecar sorts them: by their last revisions, and by their times if these are equal. It
// ignores other files, for example the parts of an unfinished upload, and delta snapshots before the first full one. The error is ErrNone, or
// says why the directory cannot be read.
func Sets(dir string) ([]Set, error) {
	files, err := list(dir)
	if err != nil {
		return nil, err
	}
	var sets []Set
	for _, file := range files {
		switch {
		case file.Kind == Full:
			sets = append(sets, Set{Full: file})
		case len(sets) > 0:
			last := &sets[len(sets)-1]
			last.Deltas = append(last.Deltas, file)
		}
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%w: %s contains no file Full-*; check the prefix of the backup store", ErrNone, dir)
	}

	return sets, nil
}

// list returns the sorted snapshots below a directory.
func list(dir string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, isSnapshot := ParseName(entry.Name())
		switch {
		case isSnapshot && entry.IsDir():
			return fs.SkipDir // contains the parts of a snapshot
		case isSnapshot:
			files = append(files, File{Name: name, Path: path})
		}

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the snapshots: %w", err)
	}
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Last, b.Last), a.Created.Compare(b.Created))
	})

	return files, nil
}
