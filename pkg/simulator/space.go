// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

// quota is the quota of the databases in bytes.
func (c *Cluster) quota() int64 { return new(helper.Quota(c.Etcd)).Value() }

// FillDatabases lets the files of all members reach the quota, also of those that get the writes later. Nine tenths of them are in use, and keys bytes after the history is removed.
// The next write raises the alarms.
func (c *Cluster) FillDatabases(keys int64) {
	c.KeysSize, c.isCompacted = keys, false
	for _, member := range c.Members {
		c.setDatabase(member.ID, c.quota(), c.quota()/10*9)
	}
}

// RaiseAlarm raises an alarm NOSPACE, once. The member need not exist.
func (c *Cluster) RaiseAlarm(member uint64) {
	if alarm := (etcdcluster.Alarm{MemberID: member, Type: etcdcluster.AlarmNoSpace}); !slices.Contains(c.Alarms, alarm) {
		c.Alarms = append(slices.Clone(c.Alarms), alarm)
	}
}

// LargestDatabase is the size of the largest file of a running member in bytes.
func (c *Cluster) LargestDatabase() int64 {
	largest := int64(0)
	for _, member := range c.Members {
		if c.RunningMember(member.Ordinal) != nil {
			largest = max(largest, c.statuses[member.ID].DBSize)
		}
	}

	return largest
}

// hasSpace is true if etcd accepts a write. A member whose file has reached the quota raises an alarm.
func (c *Cluster) hasSpace() bool {
	for _, member := range c.Members {
		if c.RunningMember(member.Ordinal) != nil && c.statuses[member.ID].DBSize >= c.quota() {
			c.RaiseAlarm(member.ID)
		}
	}

	return len(c.Alarms) == 0
}

func (c *Cluster) setDatabase(id uint64, size, inUse int64) {
	status := c.statuses[id]
	status.DBSize, status.DBSizeInUse = size, inUse
	c.statuses[id] = status
}

// reportSpace writes the condition DatabaseSpaceAvailable, as the care controller does.
func (c *Cluster) reportSpace() {
	if len(c.Alarms) == 0 && conditions.Find(c.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeDatabaseSpaceAvailable) == nil {
		return
	}
	computed := conditions.DatabaseSpaceAvailable(conditions.Input{Etcd: c.Etcd, Observation: c.observeMembers(), Now: c.now})
	if computed == nil {
		return
	}
	c.Etcd.Status.Conditions = conditions.Merge(c.Etcd.Status.Conditions, []druidv1alpha1.ConditionType{computed.Type}, []druidv1alpha1.Condition{*computed}, c.now)
}

// freeSpace executes a step that frees space. A call ends with the next tick.
func (c *Cluster) freeSpace(step plan.Step) error {
	switch step := step.(type) { //nolint:gochecksumtype // execute lists all steps
	case plan.DisarmAlarm:
		if c.Leader == 0 {
			return errors.New("etcd has no leader")
		}
		c.Alarms = slices.DeleteFunc(slices.Clone(c.Alarms), func(alarm etcdcluster.Alarm) bool {
			return alarm == etcdcluster.Alarm{MemberID: step.Member, Type: etcdcluster.AlarmNoSpace}
		})
	case plan.RequestSnapshot:
		c.Objects.FullSnapshotRequested, c.Objects.State.Space = c.now, c.Objects.State.Space.Ended(c.now)
	default:
		meta := plan.MetaOf(step)
		if !slices.ContainsFunc(c.Objects.Pods, func(pod etcdcluster.Pod) bool { return pod.Name == meta.Object && pod.UID == meta.UID }) {
			return fmt.Errorf("pod %s: %w", meta.Object, ErrConflict)
		}
		c.spaceStep, c.spaceStartedAt, c.Objects.SpaceCall.Running = step, c.now, true
	}

	return nil
}

// isDefragmenting is true for the member in a pod while it does not respond because of a defragmentation.
func (c *Cluster) isDefragmenting(pod *etcdcluster.Pod) bool {
	step, is := c.spaceStep.(plan.DefragmentMember)

	return is && step.UID == pod.UID
}

// endSpaceCall ends the call of a step that frees space.
func (c *Cluster) endSpaceCall() bool {
	step := c.spaceStep
	if step == nil {
		return false
	}
	c.spaceStep = nil
	call := etcdcluster.SpaceCall{Kind: plan.TraitsOf(step).Kind, Object: plan.MetaOf(step).Object, StartedAt: c.spaceStartedAt, EndedAt: c.now}
	call.Err = c.callForSpace(step, &call)
	c.Objects.SpaceCall = call

	return true
}

func (c *Cluster) callForSpace(step plan.Step, call *etcdcluster.SpaceCall) error {
	index := slices.IndexFunc(c.Objects.Pods, func(pod etcdcluster.Pod) bool { return pod.UID == plan.MetaOf(step).UID })
	if index < 0 || c.RunningMember(c.Objects.Pods[index].Ordinal) == nil || c.Leader == 0 {
		return errors.New("the member does not respond, or has no leader")
	}
	switch step := step.(type) { //nolint:gochecksumtype // freeSpace starts only these calls
	case plan.TakeDeltaSnapshot:
		if c.Store.Down {
			return history.ErrUnreachable
		}
		if c.Store.Last().Position != c.Data {
			if _, err := c.Store.Add(c.Data, c.now, !c.Store.IsEmpty()); err != nil {
				return err
			}
		}
		call.Stored = c.Data.Revision
	case plan.CompactHistory:
		call.Compacted, c.isCompacted = step.Revision, true
		for _, member := range c.Members {
			if status := c.statuses[member.ID]; c.RunningMember(member.Ordinal) != nil && !c.StaleSizes {
				c.setDatabase(member.ID, status.DBSize, min(status.DBSizeInUse, c.keysSize()))
			}
		}
	case plan.DefragmentMember:
		id := c.Member(c.Objects.Pods[index].Ordinal).ID
		inUse := c.statuses[id].DBSizeInUse
		if c.isCompacted {
			inUse = min(inUse, c.keysSize())
		}
		c.setDatabase(id, inUse, inUse)
	case plan.CountKeys:
		call.Keys = []etcdcluster.KeyCount{{Prefix: "/registry/events/", Keys: keysIn(c.Data)}}
	}

	return nil
}

// keysSize is the size of the keys without their history in bytes.
func (c *Cluster) keysSize() int64 {
	if c.KeysSize > 0 {
		return c.KeysSize
	}

	return c.quota() / 2
}
