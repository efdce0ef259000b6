// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// DataConsistent is False while etcd reports by the alarm CORRUPT that members have different data. The alarm is part of the data of each member, so
// that one response is enough. Without a response the condition stays as it is. Nil: no member has responded yet.
func DataConsistent(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeDataConsistent
	raised := in.Observation.Etcd.AlarmsOf(etcdcluster.AlarmCorrupt)
	switch {
	case len(raised) > 0:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonCorruptAlarmRaised, fmt.Sprintf(
			"etcd has found different data in its members, and has raised the alarm CORRUPT for %s. It rejects all writes until the alarm is disarmed. "+
				"The operator does not disarm it. Follow the runbook of alert EtcdDataCorrupt", alarmedMembers(in, raised)))
	case !in.Observation.Etcd.AnyReachable():
		return Find(in.Etcd.Status.Conditions, conditionType)
	default:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonNoCorruptAlarm, "etcd has raised no alarm CORRUPT")
	}
}
