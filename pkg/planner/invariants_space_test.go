// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// checkCompaction checks that history is removed only while a database is full. The store has the history first, unless it is unavailable, or the
// history up to its last snapshot is removed already.
func (s *scenario) checkCompaction(step plan.CompactHistory) {
	recorded := s.Objects.State.Space
	if len(s.Alarms) == 0 {
		s.violated("the history is removed, and no database is full")
	}
	if step.Revision > s.Data.Revision {
		s.violated("the history is removed up to revision %d, and etcd is at revision %d", step.Revision, s.Data.Revision)
	}
	isStored := s.Store.Down || s.Store.Contains(s.Data.At(step.Revision)) || recorded.Compacted > 0
	if helper.IsStoreConfigured(s.Etcd) && !isStored && s.Objects.DeltaSnapshotLease.Revision() < step.Revision {
		s.violated("the history is removed up to revision %d, and the store does not have it", step.Revision)
	}
}

// checkDefragmentation checks that one member is defragmented at a time, after its history is removed. The leader is not, unless it is the only member.
func (s *scenario) checkDefragmentation(step plan.DefragmentMember) {
	healthy, all := s.Voters()
	if healthy < all || len(s.Members) > all {
		s.violated("%s is defragmented, and %d of %d members are healthy", step.Object, healthy, len(s.Members))
	}
	for _, pod := range s.Objects.Pods {
		if member := s.RunningMember(pod.Ordinal); pod.UID == step.UID && member != nil && member.ID == s.Leader && all > 1 {
			s.violated("the leader %s is defragmented", step.Object)
		}
	}
	if s.Objects.State.Space.Compacted == 0 {
		s.violated("%s is defragmented, and its history was not removed", step.Object)
	}
}

// checkDisarm checks that an alarm is disarmed only if no file is large, and no other alarm would lose its effect.
func (s *scenario) checkDisarm(plan.DisarmAlarm) {
	if largest := s.LargestDatabase(); largest >= new(helper.Quota(s.Etcd)).Value()/10*8 {
		s.violated("an alarm is disarmed while a database has %d bytes", largest)
	}
	if slices.ContainsFunc(s.Alarms, func(alarm etcdcluster.Alarm) bool { return alarm.Type != etcdcluster.AlarmNoSpace }) {
		s.violated("an alarm is disarmed while one of another type is raised")
	}
}

// spaceTimeout is how long a cluster whose members are healthy, and whose keys have room, may reject writes.
const spaceTimeout = 2 * time.Minute
