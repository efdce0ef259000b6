// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// passPreflights withholds the replacement of the pod of a healthy member if a preflight refuses the new pod. It names what could not be
// checked, and does not wait for that.
func passPreflights(p plan.Plan, o etcdcluster.Observation) plan.Plan {
	if p.Stage != plan.StageReplacePod || p.Step == nil || !slices.ContainsFunc(o.HealthyOutdatedPods(), func(pod etcdcluster.Pod) bool { return pod.Name == plan.MetaOf(p.Step).Object }) {
		return p
	}
	for _, preflight := range o.Preflights {
		if preflight.Refusal != "" {
			p.Reason = strings.TrimSuffix(p.Reason, ": allowed") + ": not before a new pod can start"
			p.Step, p.WaitsFor = nil, "a correction: "+preflight.Refusal

			return p
		}
		if preflight.Unknown != "" {
			p.Reason += "; " + preflight.Unknown
		}
	}

	return p
}
