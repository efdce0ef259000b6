// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// isOfExisting is true for the name of a member of the cluster that the Etcd joins or has joined.
func isOfExisting(etcd *druidv1alpha1.Etcd, name string) bool {
	if bootstrap := etcd.Spec.Etcd.BootstrapWithExistingCluster; bootstrap != nil &&
		slices.ContainsFunc(bootstrap.Members, func(m druidv1alpha1.BootstrapExistingMember) bool { return m.Name == name }) {
		return true
	}
	joined := etcd.Status.BootstrapWithExistingCluster

	return joined != nil && slices.ContainsFunc(joined.Members, func(m druidv1alpha1.BootstrapJoinedMember) bool { return m.Name == name })
}

// existingServes is true when the member with the id answered at an endpoint of the cluster that is joined.
func (e EtcdAnswers) existingServes(id uint64) bool {
	return slices.ContainsFunc(e.Existing, func(answer MemberAnswer) bool {
		return answer.MemberID == id && answer.Serves && !answer.Learner
	})
}

// waitForExisting waits for the cluster that is to be joined: without an answer of it the first member would form a cluster
// of its own.
func waitForExisting(etcd *druidv1alpha1.Etcd, o Observation) (Plan, bool) {
	bootstrap := etcd.Spec.Etcd.BootstrapWithExistingCluster
	if bootstrap == nil || etcd.Status.BootstrapWithExistingCluster != nil || lastSize(o) > 0 {
		return Plan{}, false
	}
	why := "nobody was asked"
	for _, answer := range o.Etcd.Existing {
		if answer.Serves {
			return Plan{}, false
		}
		why = answer.Endpoint + ": " + answer.Error
	}

	return Plan{
		Stage:    StageWaitForExisting,
		Reason:   "the members are to join an existing cluster, and would form one of their own without it",
		WaitsFor: fmt.Sprintf("the existing cluster to serve at %s (%s)", strings.Join(bootstrap.ClientEndpoints, ", "), why),
	}, true
}
