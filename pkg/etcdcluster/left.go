// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// waitForClaimsLeft starts nothing of an Etcd that never ran where an earlier one of its name has left claims of more members than the
// spec asks for. Any of them may have what the first does not: it may have been behind when all were stopped. A single member would go
// on from there, without knowing of the others, and a restore from the store would not bring back what they have.
func waitForClaimsLeft(etcd *druidv1alpha1.Etcd, o Observation) (Plan, bool) {
	if lastSize(o) > 0 || o.StatefulSet.Exists || len(o.Pods) > 0 {
		return Plan{}, false
	}
	left, size := []string{}, 0
	for _, claim := range o.Claims {
		if claim.Exists && !claim.Lost && claim.Ordinal >= int(etcd.Spec.Replicas) {
			left, size = append(left, claim.Name), max(size, claim.Ordinal+1)
		}
	}
	if len(left) == 0 {
		return Plan{}, false
	}
	size += (size + 1) % 2 // clusters have odd sizes
	waitsFor := fmt.Sprintf("spec.replicas to be %d, or %s to be deleted if the data there is worth nothing", size, strings.Join(left, " and "))
	if helper.IsStoreConfigured(etcd) {
		waitsFor += fmt.Sprintf(", or a restore to be asked for by %s=%s if what the store holds is enough", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStoreUnverified)
	}

	return Plan{
		Stage:    StageHold,
		Reason:   fmt.Sprintf("volumes of more members are left of an earlier cluster than the %d of spec.replicas, and may have what the others do not", etcd.Spec.Replicas),
		WaitsFor: waitsFor,
	}, true
}
