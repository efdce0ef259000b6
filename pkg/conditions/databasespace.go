// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// DatabaseSpaceAvailable is False while an alarm NOSPACE of etcd is raised: etcd rejects writes. The message contains what the operator does, or why it
// cannot free space. It is also False if the keys need the quota soon. It is True with another reason if a planned defragmentation does not start. Without a response of a member, the condition stays as it is. Nil: no member has responded yet.
func DatabaseSpaceAvailable(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeDatabaseSpaceAvailable
	raised := in.Observation.Etcd.AlarmsOf(etcdcluster.AlarmNoSpace)
	switch {
	case len(raised) == 0 && !in.Observation.Etcd.AnyReachable():
		return Find(in.Etcd.Status.Conditions, conditionType)
	case len(raised) == 0 && isQuotaReachedSoon(in):
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonQuotaReachedSoon, fmt.Sprintf(
			"The keys need the quota of %s within a day, if they continue to increase as in the last hours. etcd then rejects writes. Find the client that writes them, or increase spec.etcd.quota",
			new(helper.Quota(in.Etcd)).String()))
	case len(raised) == 0 && in.DefragmentationRefusal != "":
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonDefragmentationRefused, in.DefragmentationRefusal)
	case len(raised) == 0:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSpaceAvailable, "etcd has raised no alarm NOSPACE")
	}
	message := fmt.Sprintf("etcd rejects writes, because it has raised the alarm NOSPACE for %s. ", alarmedMembers(in, raised))
	recorded := in.Observation.State.Space
	if recorded.IsActive() && recorded.Blocked != "" {
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonFreeingSpaceBlocked, message+recorded.Blocked)
	}

	return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNoSpace, message+freeingSpace(in))
}

const (
	// quotaSoon is how long before the quota is reached that is reported. It is reported until quotaNotSoon, so that the status does not flap.
	quotaSoon    = 24 * time.Hour
	quotaNotSoon = 36 * time.Hour
	// quotaPart is the part of the quota that must be in use: 1/quotaPart. The first data of a cluster does not count.
	quotaPart = 4
)

// isQuotaReachedSoon is true if the keys need the quota soon.
func isQuotaReachedSoon(in Input) bool {
	limit, before := quotaSoon, Find(in.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeDatabaseSpaceAvailable)
	if before != nil && before.Reason == druidv1alpha1.ReasonQuotaReachedSoon {
		limit = quotaNotSoon
	}
	quota := etcdcluster.QuotaOf(new(helper.Quota(in.Etcd)).Value(), in.Observation.Etcd)

	return in.QuotaReachedIn > 0 && in.QuotaReachedIn <= limit && etcdcluster.LargestInUse(in.Observation.Etcd) >= quota/quotaPart
}

// freeingSpace says how far the operator is.
func freeingSpace(in Input) string {
	recorded := in.Observation.State.Space
	switch {
	case !helper.ManagesPods(in.Etcd):
		return "The operator does not manage the members: remove the history, defragment them, and disarm the alarm"
	case helper.IsSuspended(in.Etcd):
		return "The operator does not free space while the reconciliation is suspended"
	case len(in.Observation.Etcd.AlarmsOf(etcdcluster.AlarmCorrupt)) > 0:
		return "The operator does not free space while the alarm CORRUPT is raised, which would lose its effect"
	case !recorded.IsActive():
		return "The operator frees space as soon as all members are healthy, and the quorum holds without each of them"
	case recorded.Error != "":
		return "The operator frees space. The last attempt failed: " + recorded.Error
	case recorded.Compacted == 0:
		return "The operator removes the history of the keys"
	default:
		return fmt.Sprintf("The operator has removed the history of the keys up to revision %d, and defragments the members", recorded.Compacted)
	}
}

// alarmedMembers names the members of alarms.
func alarmedMembers(in Input, raised []etcdcluster.Alarm) string {
	var names []string
	for _, alarm := range raised {
		names = append(names, alarmedMember(in, alarm))
	}

	return strings.Join(names, " and ")
}

// alarmedMember names the member of an alarm.
func alarmedMember(in Input, alarm etcdcluster.Alarm) string {
	if alarm.MemberID == 0 {
		return "an unknown member"
	}
	for _, member := range etcdcluster.VotingMembers(in.Etcd, in.Observation) {
		if member.ID() == alarm.MemberID {
			return "member " + member.Name
		}
	}

	return "member " + etcdcluster.FormatID(alarm.MemberID)
}
