// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package extract

import (
	"errors"
	"fmt"
	"math"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3alarm"
	"go.etcd.io/etcd/server/v3/etcdserver/apply"
	"go.etcd.io/etcd/server/v3/etcdserver/cindex"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/crypto/bcrypt"
)

// unlimited is a quota that no database exceeds. etcd applies a write also if it exceeds the quota.
const unlimited = -1

// applyEntries applies the entries of the log to the database in a file, with the code with which etcd applies them. As in etcd, an entry that
// the database rejects has no effect, for example a write with a lease that does not exist. Changes of the members are not applied: a restore
// replaces the members.
func applyEntries(path string, entries []raftpb.Entry, log *zap.Logger) (err error) {
	if len(entries) == 0 {
		return nil
	}
	index := uint64(0)
	// The packages of etcd panic if they cannot apply an entry.
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("applying the entry with index %d of the log: %v", index, reason)
		}
	}()
	m, err := openMachine(path, log.WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()

	for _, entry := range entries {
		index = entry.Index
		if request := requestIn(entry); request != nil {
			if done := m.applier.Apply(request).Physc; done != nil {
				<-done // the end of a compaction
			}
		}
	}
	m.setIndex(entries[len(entries)-1])

	return nil
}

// requestIn returns the request of an entry that changes the database. Nil: it changes only the members, or nothing.
func requestIn(entry raftpb.Entry) *etcdserverpb.InternalRaftRequest {
	request := &etcdserverpb.InternalRaftRequest{}
	// An entry of the old API of etcd cannot be parsed. etcd 3.4 and 3.5 use it for attributes of members.
	if entry.Type != raftpb.EntryNormal || len(entry.Data) == 0 || request.Unmarshal(entry.Data) != nil || request.V2 != nil {
		return nil
	}
	isOfMembers := request.ClusterVersionSet != nil || request.ClusterMemberAttrSet != nil || request.DowngradeInfoSet != nil || request.DowngradeVersionTest != nil
	isRead := request.Range != nil || request.AuthUserGet != nil || request.AuthRoleGet != nil || request.AuthStatus != nil
	if isOfMembers || isRead {
		return nil
	}

	return request
}

// machine is the state of an etcd that applies entries.
type machine struct {
	backend backend.Backend
	store   mvcc.KV
	lessor  lease.Lessor
	auth    auth.AuthStore
	applier apply.UberApplier
}

func openMachine(path string, log *zap.Logger) (*machine, error) {
	config := backend.DefaultBackendConfig(log)
	config.Path, config.UnsafeNoFsync = path, true // the file is a copy, which is written to the disk when it is complete
	m := &machine{backend: backend.New(config)}
	// Leases expire only in the leader of a cluster.
	m.lessor = lease.NewLessor(log, m.backend, noVersion{}, lease.LessorConfig{})
	m.store = mvcc.NewStore(log, m.backend, m.lessor, mvcc.StoreConfig{})
	alarms, err := v3alarm.NewAlarmStore(log, schema.NewAlarmBackend(log, m.backend))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the alarms: %w", err), m.close())
	}
	tokens, err := auth.NewTokenProvider(log, "", nil, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the users: %w", err), m.close())
	}
	m.auth = auth.NewAuthStore(log, schema.NewAuthBackend(log, m.backend), tokens, bcrypt.MinCost)
	m.applier = apply.NewUberApplier(log, m.backend, m.store, alarms, m.auth, m.lessor, membership.NewCluster(log), noRaft{}, nil,
		cindex.NewFakeConsistentIndex(0), math.MaxInt64, false, unlimited)

	return m, nil
}

func (m *machine) close() error {
	var err error
	if m.auth != nil {
		err = m.auth.Close()
	}
	m.lessor.Stop()

	return errors.Join(err, m.store.Close(), m.backend.Close())
}

// setIndex records the last entry that the database contains. etcd 3.4 does not record its term.
func (m *machine) setIndex(last raftpb.Entry) {
	tx := m.backend.BatchTx()
	tx.LockOutsideApply()
	defer tx.Unlock()
	term := uint64(0)
	if _, recorded := schema.UnsafeReadConsistentIndex(tx); recorded > 0 {
		term = last.Term
	}
	schema.UnsafeUpdateConsistentIndex(tx, last.Index, term)
}

// noVersion is a cluster whose version is not known.
type noVersion struct{}

func (noVersion) Version() *semver.Version { return nil }

// noRaft is a member without raft. Only the headers of responses contain its values.
type noRaft struct{}

func (noRaft) MemberID() types.ID     { return 0 }
func (noRaft) Leader() types.ID       { return 0 }
func (noRaft) CommittedIndex() uint64 { return 0 }
func (noRaft) AppliedIndex() uint64   { return 0 }
func (noRaft) Term() uint64           { return 0 }
