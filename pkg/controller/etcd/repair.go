// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// repairBeside replaces a volume that is lost for good although the spec is not carried out, and returns why it is not. An Etcd
// whose author has suspended it never comes here: somebody may have their own hands on it.
func (r *Reconciler) repairBeside(ctx context.Context, p *pass, why error) error {
	decision := planner.ForRepair(p.canonical, p.observation, r.Clock.Now())
	if decision.Step != nil {
		logf.FromContext(ctx).Info("Doing a step beside the spec", "step", plan.TraitsOf(decision.Step).Kind, "object", plan.MetaOf(decision.Step).Object, "reason", decision.Reason)
		if err := r.do(ctx, p, nil, rendering{}, decision); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
		}
	}
	if period := periodFor(decision); decision.Outcome() != plan.OutcomeDone && (p.repairing == 0 || period < p.repairing) {
		p.repairing = period
	}

	return why
}
