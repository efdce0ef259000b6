// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// DataConsistent is False while enough comparisons of all voting members have found the same difference, and Unknown before. It is also False while etcd
// reports different data by the alarm CORRUPT. The alarm is part of the data of each member, so that one response is enough. Without a response the
// condition stays as it is. Nil: no member has responded yet.
func DataConsistent(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeDataConsistent
	found, raised := in.Observation.State.Inconsistency, in.Observation.Etcd.AlarmsOf(etcdcluster.AlarmCorrupt)
	switch {
	case consistency.IsConfirmed(found):
		message := fmt.Sprintf("The members have different data since %s: %s. %s", stamp(found.Since), consistency.Describe(*found), replacementOf(*found))
		if len(raised) > 0 {
			message += fmt.Sprintf(". etcd has raised the alarm CORRUPT for %s, and rejects all writes until all members have the same data", alarmedMembers(in, raised))
		}

		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonDifferentData, message)
	case len(raised) > 0:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonCorruptAlarmRaised, fmt.Sprintf(
			"etcd has found different data in its members, and has raised the alarm CORRUPT for %s. It rejects all writes until the alarm is disarmed. "+
				"The operator compares the data of all voting members each minute, and disarms the alarm if it is the same. Follow the runbook of alert EtcdDataCorrupt", alarmedMembers(in, raised)))
	case found != nil:
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonDifferenceNotConfirmed, fmt.Sprintf(
			"%d of %d comparisons have found different data: %s. The operator compares again within a minute", found.Comparisons, consistency.Confirmations, consistency.Describe(*found)))
	case !in.Observation.Etcd.AnyReachable():
		return Find(in.Etcd.Status.Conditions, conditionType)
	default:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonNoCorruptAlarm, "No comparison of all voting members has found different data, and etcd has raised no alarm CORRUPT")
	}
}

// replacementOf says what the operator does about a confirmed difference.
func replacementOf(found state.Inconsistency) string {
	if _, has := consistency.Majority(&found); !has {
		return "No quorum of all voting members has the same data, and the operator changes nothing. Follow the runbook of alert EtcdDataCorrupt"
	}
	var names []string
	for _, member := range consistency.Minority(&found) {
		names = append(names, member.Name)
	}

	volumes := "the volume"
	if len(names) > 1 {
		volumes = "the volumes"
	}

	return fmt.Sprintf("The operator replaces %s with the data of the quorum, and keeps %s", strings.Join(names, " and "), volumes)
}
