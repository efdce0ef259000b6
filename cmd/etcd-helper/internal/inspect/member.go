// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/raftlog"
)

// Member is what a data directory of etcd contains. Its form in JSON is a contract with the operator: see Inspection in its package etcdcluster.
type Member struct {
	Result
	// ConsistentIndex is the index of the last entry of the log that the database contains. 0: it is not known.
	ConsistentIndex uint64 `json:"consistentIndex,omitempty"`
	// Alarms are the types of the raised alarms, for example NOSPACE.
	Alarms []string `json:"alarms,omitempty"`
	// Log is the write-ahead log. Nil: the data directory contains none, see LogProblem.
	Log *LogState `json:"log,omitempty"`
	// LogProblem is why the write-ahead log cannot be read. The database is not affected. Empty: it can be read.
	LogProblem string `json:"logProblem,omitempty"`
}

// LogState is the state of a write-ahead log.
type LogState struct {
	// ClusterID and MemberID are the identity of the member, in hexadecimal digits.
	ClusterID string `json:"clusterID"`
	MemberID  string `json:"memberID"`
	// LastTerm and LastIndex are the term and the index of the last entry. Raft elects the member for which they are the highest.
	LastTerm  uint64 `json:"lastTerm"`
	LastIndex uint64 `json:"lastIndex"`
	// Term is the newest term in which the member has voted, or that it has seen.
	Term uint64 `json:"term"`
	// Commit is the highest index that the member knows to be committed. Higher entries may be committed nevertheless.
	Commit uint64 `json:"commit"`
	// MaxRevision is the highest possible revision after all entries. It is higher than the real one if an entry changes nothing, for example
	// the deletion of a key that does not exist.
	MaxRevision int64 `json:"maxRevision"`
	// DiscardedBytes is the size of the data after the last entry that can be read. A member that loses power, or a damaged disk, leaves it.
	DiscardedBytes int64 `json:"discardedBytes,omitempty"`
	// Voters are the IDs of the voting members after all entries, in hexadecimal digits.
	Voters []string `json:"voters,omitempty"`
	// FormerVoters are the IDs of the voting members that entries above Commit remove. They may still vote, because these entries may not be committed.
	FormerVoters []string `json:"formerVoters,omitempty"`
}

// Dir inspects a data directory of etcd, with its write-ahead log. Its errors are those of DataDir. An unreadable log is not an error, because
// the database can be used without it.
func Dir(dir string, timeout time.Duration, log *zap.Logger) (Member, error) {
	path, err := DatabaseIn(dir)
	if err != nil {
		return Member{}, err
	}
	member := Member{}
	err = View(path, Options{Timeout: timeout, Log: log}, func(database *Database) error {
		if member, err = database.Member(); err != nil {
			return err
		}
		// The database stays open, so that no etcd starts and writes to the log.
		entries, err := raftlog.Read(dir, log)
		if err == nil && member.ConsistentIndex < entries.Snapshot.Index {
			err = received(dir, entries.Snapshot.Index, log, &member)
		}
		if err == nil {
			member.Log, err = logState(entries, member)
		}
		if err != nil && !errors.Is(err, raftlog.ErrMissing) {
			member.LogProblem = err.Error()
		}

		return nil
	})

	return member, err
}

// received inspects the database that a leader has sent. etcd ended before it replaced its own database. An error does not change the member.
func received(dir string, index uint64, log *zap.Logger, member *Member) error {
	return View(ReceivedDatabase(dir, index), Options{Timeout: time.Second, Log: log}, func(database *Database) error {
		found, err := database.Member()
		if err == nil {
			*member = found
		}

		return err
	})
}

// ReceivedDatabase is the path of the database that a leader has sent together with the snapshot file of an index.
func ReceivedDatabase(dir string, index uint64) string {
	return filepath.Join(datadir.ToSnapDir(dir), fmt.Sprintf("%016x.snap.db", index))
}

// Member returns what the database contains, without a log.
func (d *Database) Member() (Member, error) {
	result, err := d.Inspect()
	if err != nil {
		return Member{}, err
	}
	alarms, err := d.Alarms()
	if err != nil {
		return Member{}, err
	}
	member := Member{Result: result, ConsistentIndex: d.ConsistentIndex()}
	for _, alarm := range alarms {
		member.Alarms = append(member.Alarms, alarm.Alarm.String())
	}

	return member, nil
}

// formatIDs returns IDs of members in hexadecimal digits.
func formatIDs(ids []uint64) []string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, strconv.FormatUint(id, 16))
	}

	return texts
}

func logState(log *raftlog.Log, member Member) (*LogState, error) {
	state := &LogState{
		ClusterID: strconv.FormatUint(log.ClusterID, 16), MemberID: strconv.FormatUint(log.MemberID, 16),
		Term: log.HardState.Term, Commit: log.HardState.Commit, MaxRevision: member.Revision,
		DiscardedBytes: log.DiscardedBytes,
	}
	state.LastTerm, state.LastIndex = log.Last()
	voters, former, err := log.Voters()
	if err != nil {
		return nil, err
	}
	state.Voters, state.FormerVoters = formatIDs(voters), formatIDs(former)
	entries, err := log.After(member.ConsistentIndex)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if mayWrite(entry) {
			state.MaxRevision++
		}
	}

	return state, nil
}

// mayWrite is true if an entry may change keys. Each such entry creates at most one revision.
func mayWrite(entry raftpb.Entry) bool {
	request := etcdserverpb.InternalRaftRequest{}
	if entry.Type != raftpb.EntryNormal || request.Unmarshal(entry.Data) != nil {
		return false
	}

	return request.Put != nil || request.DeleteRange != nil || request.Txn != nil || request.LeaseRevoke != nil
}
