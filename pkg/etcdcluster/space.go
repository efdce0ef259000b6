// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import "time"

// KeyCount is the number of keys with a prefix.
type KeyCount struct {
	// Prefix of the keys. Empty: all keys that are not counted otherwise.
	Prefix string
	// Keys is their number.
	Keys int64
}

// SpaceCall is the last call of this process that frees space in the databases of the Etcd. The zero value: it made none.
type SpaceCall struct {
	// Running is true while a call is in progress. All other fields are then those of the call before.
	Running bool
	// Kind is the kind of the step that made the call. Empty: none has ended.
	Kind string
	// Object is the name of the object of the step.
	Object string
	// StartedAt is when it began, and EndedAt when it ended.
	StartedAt, EndedAt time.Time
	// Err is why it failed. Nil: it did not.
	Err error
	// Stored is the last revision in the backup store. 0: it was no snapshot.
	Stored int64
	// Compacted is the revision up to which the history was removed. 0: it was no compaction.
	Compacted int64
	// Keys are the numbers of keys, the largest one first. Nil: they were not counted.
	Keys []KeyCount
}

// ID identifies an ended call. Empty: no call has ended.
func (c SpaceCall) ID() string {
	if c.Kind == "" || c.Running {
		return ""
	}

	return c.Kind + " " + c.Object + " " + c.StartedAt.UTC().Format(time.RFC3339Nano)
}

// SmallestInUse is the smallest part of a database in bytes that is in use. All members have the same keys. After a
// compaction, members of etcd 3.4 and 3.5 report freed space only with later writes, which a full database rejects. 0: no member responded.
func SmallestInUse(e EtcdResponses) int64 {
	smallest := int64(0)
	for _, member := range e.Members {
		if member.Reachable && (smallest == 0 || member.DBSizeInUse < smallest) {
			smallest = member.DBSizeInUse
		}
	}

	return smallest
}

// LargestInUse is the largest part of a database in bytes that is in use. 0: no member responded.
func LargestInUse(e EtcdResponses) int64 {
	largest := int64(0)
	for _, member := range e.Members {
		largest = max(largest, member.DBSizeInUse)
	}

	return largest
}

// QuotaOf is the smallest quota in bytes: that of the spec, or one that a member reports.
func QuotaOf(spec int64, e EtcdResponses) int64 {
	for _, member := range e.Members {
		if member.DBSizeQuota > 0 {
			spec = min(spec, member.DBSizeQuota)
		}
	}

	return spec
}
