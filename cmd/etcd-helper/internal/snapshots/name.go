// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package snapshots reads and writes the snapshots of etcd-backup-restore in a directory.
//
// What may not live here: databases, and decisions about the content of a snapshot.
package snapshots

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Kind is the kind of a snapshot.
type Kind string

const (
	// Full is a database of etcd.
	Full Kind = "Full"
	// Delta is a list of events.
	Delta Kind = "Incr"
)

// Compressions are the file name extensions of compressed snapshots.
const (
	gzipExtension = ".gz"
	lzwExtension  = ".Z"
	zlibExtension = ".zlib"
)

// Name is the name of a snapshot: KIND-FIRST-LAST-UNIXTIME[.COMPRESSION][.final].
type Name struct {
	Kind Kind
	// First and Last are the revisions of the first and of the last event of a delta snapshot. First is 0 for a full snapshot, and its database
	// can have a higher revision than Last.
	First, Last int64
	// Created is when the sidecar began to write it, in whole seconds.
	Created time.Time
	// Compression is the file name extension of its compression. Empty: it is not compressed.
	Compression string
	// Final is true for the last snapshot before a member is stopped.
	Final bool
}

var namePattern = regexp.MustCompile(`^(Full|Incr)-(\d+)-(\d+)-(\d+)(\.gz|\.Z|\.zlib)?(\.final)?$`)

// ParseName returns the parts of the name of a file. False: the file is not a snapshot.
func ParseName(name string) (Name, bool) {
	match := namePattern.FindStringSubmatch(name)
	if match == nil {
		return Name{}, false
	}
	numbers := [3]int64{}
	for i := range numbers {
		number, err := strconv.ParseInt(match[2+i], 10, 64)
		if err != nil {
			return Name{}, false
		}
		numbers[i] = number
	}
	if numbers[0] > numbers[1] {
		return Name{}, false
	}

	return Name{
		Kind: Kind(match[1]), First: numbers[0], Last: numbers[1], Created: time.Unix(numbers[2], 0).UTC(), Compression: match[5], Final: match[6] != "",
	}, true
}

// String returns the name of the file.
func (n Name) String() string {
	final := ""
	if n.Final {
		final = ".final"
	}

	return fmt.Sprintf("%s-%08d-%08d-%d%s%s", n.Kind, n.First, n.Last, n.Created.Unix(), n.Compression, final)
}
