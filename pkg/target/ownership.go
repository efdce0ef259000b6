// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// CheckOwnership refuses an Etcd whose StatefulSet or claims exist and do not belong to it: no plan is about them.
func (t *Target) CheckOwnership(o etcdcluster.Observation) error {
	var foreign []string
	isOrphan := o.StatefulSet.OwnerUID == "" && !o.ManagedResource.AppliesStatefulSet
	if o.StatefulSet.Exists && (o.StatefulSet.Foreign || isOrphan) {
		foreign = append(foreign, "StatefulSet "+o.StatefulSet.Name)
	}
	for _, claim := range o.ForeignClaims {
		if isOfTemporaryMember(t.Etcd, o, claim) {
			continue // a surge waits until it is deleted
		}
		foreign = append(foreign, "PersistentVolumeClaim "+claim.Name)
	}
	if len(foreign) == 0 {
		return nil
	}

	return RefuseForeign(druidv1alpha1.ErrorCodeInvalidSpec, t.Etcd, foreign...)
}

// isOfTemporaryMember is true for a claim that only the temporary member of a surge would use. The cluster runs without it.
func isOfTemporaryMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, claim etcdcluster.Claim) bool {
	return claim.Ordinal >= int(max(etcd.Spec.Replicas, o.State.Size)) && o.State.Size > 0 && o.State.Restore != state.RestoreDiscard
}

// RefuseForeign returns the refusal of an Etcd because of objects that belong to another owner and have names which the Etcd needs. Each
// object is given as kind and name. The operator neither changes nor deletes such objects.
func RefuseForeign(code druidv1alpha1.ErrorCode, etcd *druidv1alpha1.Etcd, objects ...string) error {
	return &plan.Problem{Kind: plan.ProblemRefused, Code: code, Foreign: true, Message: fmt.Sprintf(
		"metadata.name: %s in namespace %s exists and does not belong to this Etcd: delete it if nothing needs it, or create the Etcd with another name",
		strings.Join(objects, ", "), etcd.Namespace)}
}
