// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/schedule"
)

// This file decides when the operator defragments members although no database is full. A member does not respond during its defragmentation. The
// operator therefore defragments only if the files shrink considerably, and only in a window that spec.etcd.defragmentationSchedule begins. An
// EtcdOpsTask executes it: followers first, and the leader last after it has transferred its leadership.

const (
	// slowestStall is for how long a member does not respond for each gibibyte that is in use, before the operator has measured it. It is the longest
	// reported time (https://github.com/gardener/etcd-backup-restore/issues/1061).
	slowestStall = 10 * time.Second
	// reclaimablePart is the part of a file that must be free: 1/reclaimablePart.
	reclaimablePart = 2
	// reclaimableOfLargePart is the same for a file that is close to the quota.
	reclaimableOfLargePart = 10
)

// DefragmentationSettings are the settings of the operator for planned defragmentations.
type DefragmentationSettings struct {
	// Window is how long after a time of the schedule a defragmentation may start.
	Window time.Duration
	// MinReclaimable is how many bytes of a file must be free.
	MinReclaimable int64
	// StallBudget limits for how long a defragmentation may interrupt a member, unless an annotation of the Etcd does. 0: no limit.
	StallBudget time.Duration
}

// Defragmentation is the decision about a planned defragmentation. Zero: nothing is to be done.
type Defragmentation struct {
	// TaskID is the last part of the name of the EtcdOpsTask to create, and identifies the window. Empty: none.
	TaskID string
	// NotAfter is the end of the window.
	NotAfter time.Time
	// Reason is why the members are defragmented, as a sentence.
	Reason string
	// Refusal is why they are not although a file could shrink, as sentences with a remedy. Empty: nothing is refused.
	Refusal string
}

// IsDefragmentationDue is true if a file of a canonical Etcd could shrink considerably, and a window is open. PlanDefragmentation then decides.
func IsDefragmentationDue(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, settings DefragmentationSettings, now time.Time) bool {
	if !mayDefragment(etcd, o) || fragmentedMember(etcd, o, settings) == nil {
		return false
	}
	_, isOpen := defragmentationWindow(etcd, settings.Window, now)

	return isOpen
}

// PlanDefragmentation decides whether the members of a canonical Etcd are defragmented now. tasks are the EtcdOpsTasks of its namespace. One of them
// may be that of the current window. The earlier ones contain for how long members did not respond.
func PlanDefragmentation(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, tasks []druidv1alpha1.EtcdOpsTask, settings DefragmentationSettings, now time.Time) Defragmentation {
	if !IsDefragmentationDue(etcd, o, settings, now) {
		return Defragmentation{}
	}
	began, _ := defragmentationWindow(etcd, settings.Window, now)
	id := fmt.Sprintf("planned-%d", began.Unix())
	if slices.ContainsFunc(tasks, func(task druidv1alpha1.EtcdOpsTask) bool { return precludesDefragmentation(etcd, task, settings, now) }) {
		return Defragmentation{}
	}
	if refusal := refusedDefragmentation(etcd, o, tasks, settings); refusal != "" {
		return Defragmentation{Refusal: refusal}
	}
	found := fragmentedMember(etcd, o, settings)

	return Defragmentation{TaskID: id, NotAfter: began.Add(settings.Window), Reason: fmt.Sprintf("The file of member %s has %s, and %s are in use", found.Name, formatSize(found.Endpoint.DBSize), formatSize(found.Endpoint.DBSizeInUse))}
}

// fragmentedMember returns a member whose file could shrink considerably. Nil: there is none.
func fragmentedMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, settings DefragmentationSettings) *etcdcluster.Member {
	members := etcdcluster.VotingMembers(etcd, o)
	index := slices.IndexFunc(members, func(m etcdcluster.Member) bool { return isFragmented(m, spaceLimit(etcd, o), settings) })
	if index < 0 {
		return nil
	}

	return &members[index]
}

// plannedTask is the beginning of the name of the EtcdOpsTasks of planned defragmentations.
func plannedTask(etcd *druidv1alpha1.Etcd) string {
	return etcd.Name + "-" + druidv1alpha1.RunTaskDefragmentation + "-planned-"
}

// precludesDefragmentation is true for a task of the Etcd that has not ended, and for a planned defragmentation of less than a window ago. A schedule
// may begin windows that overlap.
func precludesDefragmentation(etcd *druidv1alpha1.Etcd, task druidv1alpha1.EtcdOpsTask, settings DefragmentationSettings, now time.Time) bool {
	isPlanned := strings.HasPrefix(task.Name, plannedTask(etcd)) && now.Before(task.CreationTimestamp.Add(settings.Window))

	return isPlanned || task.Spec.EtcdName != nil && *task.Spec.EtcdName == etcd.Name && !helper.IsTaskFinished(&task)
}

// mayDefragment is true if a generation is accepted, and if nothing else interrupts or changes the members.
func mayDefragment(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	switch {
	case o.State.Accepted == nil, !helper.ManagesPods(etcd), helper.IsHibernated(etcd), helper.IsSuspended(etcd):
		return false
	case o.State.Procedure() != "", o.State.Space.IsActive():
		return false
	case len(o.Etcd.AlarmsOf(etcdcluster.AlarmCorrupt)) > 0, len(o.Etcd.AlarmsOf(etcdcluster.AlarmNoSpace)) > 0, o.Defragmentation != "":
		return false
	}
	members := etcdcluster.VotingMembers(etcd, o)

	return len(members) > 0 && !slices.ContainsFunc(members, func(m etcdcluster.Member) bool {
		return m.Pod == nil || m.Pod.Deleting || !m.IsHealthy() || m.Endpoint == nil || m.Endpoint.Learner || m.Pod.IsOutdated(o.StatefulSet)
	})
}

// defragmentationWindow returns when the last window began, and whether it is open.
func defragmentationWindow(etcd *druidv1alpha1.Etcd, window time.Duration, now time.Time) (time.Time, bool) {
	began, has, err := schedule.Last(DefragmentationSchedule(etcd), now)

	return began, err == nil && has && now.Before(began.Add(window))
}

// DefragmentationSchedule is the cron expression whose times begin a window. It is that of the spec, or every third day at a time that depends on
// the Etcd. Without a schedule, the sidecar defragments every third day at midnight, which would be all Etcds at once.
func DefragmentationSchedule(etcd *druidv1alpha1.Etcd) string {
	if configured := etcd.Spec.Etcd.DefragmentationSchedule; configured != nil && *configured != "" {
		return *configured
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(etcd.Namespace + "/" + etcd.Name))
	minute := hash.Sum32() % (24 * 60)

	return fmt.Sprintf("%d %d */3 * *", minute%60, minute/60)
}

// isFragmented is true if a defragmentation shrinks the file of a member considerably.
func isFragmented(m etcdcluster.Member, limit int64, settings DefragmentationSettings) bool {
	size, free := m.Endpoint.DBSize, m.Endpoint.DBSize-m.Endpoint.DBSizeInUse
	switch {
	case m.Endpoint.DBSizeInUse == 0:
		return false // unknown
	case size >= limit:
		return free >= size/reclaimableOfLargePart
	default:
		return free >= settings.MinReclaimable && free >= size/reclaimablePart
	}
}

// refusedDefragmentation returns why the members are not defragmented. It would interrupt one of them for too long, or a volume has no room for
// the copy. Empty: they may be.
func refusedDefragmentation(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, tasks []druidv1alpha1.EtcdOpsTask, settings DefragmentationSettings) string {
	members := etcdcluster.VotingMembers(etcd, o)
	for _, member := range members {
		if missing := missingRoom(o, member); missing != "" {
			return missing
		}
	}
	budget, invalid := stallBudget(etcd, settings)
	if invalid != "" {
		return invalid
	}
	if stall := PredictedStall(etcd, etcdcluster.LargestInUse(o.Etcd), tasks); budget > 0 && stall > budget {
		return fmt.Sprintf("A planned defragmentation would interrupt each member for up to %s, which is longer than the budget of %s. Increase the annotation %s, or start it at a time that suits with `kubectl etcd defrag %s`",
			max(time.Second, stall.Round(time.Second)), budget, druidv1alpha1.DefragmentationStallBudgetAnnotation, etcd.Name)
	}

	return ""
}

// stallBudget returns the budget of an Etcd. The second result says why it is not known.
func stallBudget(etcd *druidv1alpha1.Etcd, settings DefragmentationSettings) (time.Duration, string) {
	value, has := etcd.Annotations[druidv1alpha1.DefragmentationStallBudgetAnnotation]
	if !has {
		return settings.StallBudget, ""
	}
	budget, err := time.ParseDuration(value)
	if err != nil || budget < 0 {
		return 0, fmt.Sprintf("The annotation %s=%q is not a duration such as 10s. Correct or remove it", druidv1alpha1.DefragmentationStallBudgetAnnotation, value)
	}

	return budget, ""
}

// PredictedStall returns for how long a member does not respond while its database is defragmented, of which that many bytes are in use. The slowest
// member in the last defragmentation decides. tasks are the EtcdOpsTasks of the namespace.
func PredictedStall(etcd *druidv1alpha1.Etcd, inUse int64, tasks []druidv1alpha1.EtcdOpsTask) time.Duration {
	perByte := float64(slowestStall) / (1 << 30)
	var last time.Time
	for _, task := range tasks {
		at := task.CreationTimestamp.Time
		if task.Spec.EtcdName == nil || *task.Spec.EtcdName != etcd.Name || len(task.Status.Members) == 0 || at.Before(last) {
			continue
		}
		slowest := 0.0
		for _, member := range task.Status.Members {
			if member.SizeBytesAfter > 0 {
				slowest = max(slowest, float64(member.Stall.Duration)/float64(member.SizeBytesAfter))
			}
		}
		if slowest > 0 {
			perByte, last = slowest, at
		}
	}

	return time.Duration(perByte * float64(inUse))
}
