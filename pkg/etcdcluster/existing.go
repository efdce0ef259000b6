// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// IsOfExisting is true for the name of a member of the cluster that the Etcd joins or has joined.
func IsOfExisting(etcd *druidv1alpha1.Etcd, name string) bool {
	if bootstrap := etcd.Spec.Etcd.BootstrapWithExistingCluster; bootstrap != nil &&
		slices.ContainsFunc(bootstrap.Members, func(m druidv1alpha1.BootstrapExistingMember) bool { return m.Name == name }) {
		return true
	}
	joined := etcd.Status.BootstrapWithExistingCluster

	return joined != nil && slices.ContainsFunc(joined.Members, func(m druidv1alpha1.BootstrapJoinedMember) bool { return m.Name == name })
}

// LeavingExisting returns the members of the joined cluster that are removed from etcd: the status has them, and the spec does not. Nil: there
// are none, or the members of the Etcd are managed externally.
func LeavingExisting(etcd *druidv1alpha1.Etcd) []druidv1alpha1.BootstrapJoinedMember {
	joined, bootstrap := etcd.Status.BootstrapWithExistingCluster, etcd.Spec.Etcd.BootstrapWithExistingCluster
	if joined == nil || !helper.ManagesPods(etcd) {
		return nil
	}
	var leaving []druidv1alpha1.BootstrapJoinedMember
	for _, member := range joined.Members {
		if bootstrap == nil || !slices.ContainsFunc(bootstrap.Members, func(m druidv1alpha1.BootstrapExistingMember) bool { return m.Name == member.Name }) {
			leaving = append(leaving, member)
		}
	}

	return leaving
}

// ExistingCluster returns the cluster that the Etcd joins or has joined, as it is rendered. Members that the spec does not name any more stay
// until all of them are removed from etcd. Until then, the client endpoints stay as they were rendered last. A restored cluster has none of
// these members. Nil: there is no such cluster.
func ExistingCluster(etcd *druidv1alpha1.Etcd, recorded state.State) *druidv1alpha1.BootstrapWithExistingCluster {
	bootstrap, leaving := etcd.Spec.Etcd.BootstrapWithExistingCluster, LeavingExisting(etcd)
	if len(leaving) == 0 || recorded.Restore != state.RestoreNone {
		return bootstrap
	}
	union := &druidv1alpha1.BootstrapWithExistingCluster{}
	if bootstrap != nil {
		union = bootstrap.DeepCopy()
	}
	// The order is that of the status, in which they were rendered before.
	var members []druidv1alpha1.BootstrapExistingMember
	for _, joined := range etcd.Status.BootstrapWithExistingCluster.Members {
		member := druidv1alpha1.BootstrapExistingMember(joined)
		if at := slices.IndexFunc(union.Members, func(m druidv1alpha1.BootstrapExistingMember) bool { return m.Name == joined.Name }); at >= 0 {
			member = union.Members[at]
			union.Members = slices.Delete(union.Members, at, at+1)
		}
		members = append(members, member)
	}
	union.Members = slices.Concat(members, union.Members)
	if recorded.Existing != nil {
		union.ClientEndpoints = recorded.Existing.ClientEndpoints
	}

	return union
}

// IsListedAs is true for the entry of a member of the joined cluster in the member list. A learner that was added again and never ran has no name,
// only its peer URLs.
func IsListedAs(member druidv1alpha1.BootstrapJoinedMember, listed ListedMember) bool {
	return listed.Name == member.Name ||
		listed.Name == "" && slices.ContainsFunc(listed.PeerURLs, func(url string) bool { return slices.Contains(member.PeerURLs, url) })
}

// ListedLeaving returns the entries of the members in the member list that are removed with LeavingExisting.
func ListedLeaving(etcd *druidv1alpha1.Etcd, o Observation) []ListedMember {
	leaving := LeavingExisting(etcd)
	var listed []ListedMember
	for _, entry := range o.Etcd.MemberList {
		if slices.ContainsFunc(leaving, func(m druidv1alpha1.BootstrapJoinedMember) bool { return IsListedAs(m, entry) }) {
			listed = append(listed, entry)
		}
	}

	return listed
}
