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

// passPreflights withholds the step of a rolling update that stops a healthy member, or that adds a member, if a preflight refuses the new pod. The preflights are the observed ones
// and the computed ones. It names what could not be checked, and does not wait for that.
func passPreflights(p plan.Plan, o etcdcluster.Observation, computed ...etcdcluster.Preflight) plan.Plan {
	if p.ScaleUp == nil && !replacesHealthyMember(o, p) {
		return p
	}
	for _, preflight := range append(slices.Clone(o.Preflights), computed...) {
		if preflight.Refusal != "" {
			p.Reason = strings.TrimSuffix(p.Reason, ": allowed") + ": not before a new pod can start"
			p.Step, p.ScaleUp, p.NextSurge, p.WaitsFor = nil, nil, nil, "a correction: "+preflight.Refusal

			return p
		}
		if preflight.Unknown != "" {
			p.Reason += "; " + preflight.Unknown
		}
	}

	return p
}

// replacedPod returns the name of the pod that the step of a rolling update replaces, or would replace next. Empty: it replaces none.
func replacedPod(p plan.Plan) string {
	if p.Stage != plan.StageReplacePod || p.Step == nil {
		return ""
	}

	return plan.MetaOf(p.Step).Object
}

// replacesHealthyMember is true if the step of a rolling update deletes the pod of a healthy member, or transfers its leadership for that. Other plans stop
// a member because it does not work, or have removed it before.
func replacesHealthyMember(o etcdcluster.Observation, p plan.Plan) bool {
	return slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool { return pod.Name == replacedPod(p) && o.IsHealthy(pod) })
}
