// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = DescribeTable("ExistingCluster",
	func(spec, joined string, change func(*druidv1alpha1.Etcd, *state.State), members, leaving string, endpoint string) {
		etcd, recorded := &druidv1alpha1.Etcd{}, state.State{Existing: &state.Existing{ClientEndpoints: []string{"http://recorded"}}}
		etcd.Spec.Replicas = 3
		if spec != "" {
			etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{"http://spec"}}
		}
		for _, name := range spec {
			etcd.Spec.Etcd.BootstrapWithExistingCluster.Members = append(etcd.Spec.Etcd.BootstrapWithExistingCluster.Members, druidv1alpha1.BootstrapExistingMember{Name: string(name)})
		}
		if joined != "" {
			etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{}
		}
		for _, name := range joined {
			etcd.Status.BootstrapWithExistingCluster.Members = append(etcd.Status.BootstrapWithExistingCluster.Members, druidv1alpha1.BootstrapJoinedMember{Name: string(name)})
		}
		change(etcd, &recorded)

		namesOf, endpoints := "", ""
		if existing := etcdcluster.ExistingCluster(etcd, recorded); existing != nil {
			for _, member := range existing.Members {
				namesOf += member.Name
			}
			for _, endpoint := range existing.ClientEndpoints {
				endpoints += endpoint
			}
		}
		Expect(namesOf).To(Equal(members))
		Expect(endpoints).To(Equal(endpoint))
		namesOf = ""
		for _, member := range etcdcluster.LeavingExisting(etcd) {
			namesOf += member.Name
		}
		Expect(namesOf).To(Equal(leaving))
	},
	Entry("is that of the spec before the join", "ab", "", unchanged, "ab", "", "http://spec"),
	Entry("is that of the spec after the join", "ab", "ab", unchanged, "ab", "", "http://spec"),
	Entry("has the members that are removed, in the previous order, at the recorded endpoints", "b", "abc", unchanged, "abc", "ac", "http://recorded"),
	Entry("has all members if the spec has none", "", "abc", unchanged, "abc", "abc", "http://recorded"),
	Entry("has also new members of the spec", "bx", "ab", unchanged, "abx", "a", "http://recorded"),
	Entry("has no endpoints if none are recorded, since it joined under etcd-druid", "", "a", func(_ *druidv1alpha1.Etcd, s *state.State) { s.Existing = nil }, "a", "a", ""),
	Entry("has no removed members during a restore", "", "abc", func(_ *druidv1alpha1.Etcd, s *state.State) { s.Restore = state.RestoreStart }, "", "abc", ""),
	Entry("has no removed members if the members of the Etcd are managed externally", "", "abc", func(e *druidv1alpha1.Etcd, _ *state.State) {
		e.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1"}
	}, "", "", ""),
	Entry("does not exist without a join", "", "", unchanged, "", "", ""),
)

func unchanged(*druidv1alpha1.Etcd, *state.State) {}

var _ = DescribeTable("ListedLeaving matches",
	func(listed etcdcluster.ListedMember, is bool) {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{
			Members: []druidv1alpha1.BootstrapJoinedMember{{Name: "old-0", PeerURLs: []string{"http://old-0:2380", "http://10.0.0.1:2380"}}},
		}
		o := etcdcluster.Observation{Etcd: etcdcluster.EtcdResponses{MemberList: []etcdcluster.ListedMember{listed}}}
		Expect(etcdcluster.ListedLeaving(etcd, o)).To(HaveLen(map[bool]int{true: 1}[is]))
	},
	Entry("a member by its name", etcdcluster.ListedMember{Name: "old-0"}, true),
	Entry("a learner without a name by a peer URL", etcdcluster.ListedMember{Learner: true, PeerURLs: []string{"http://10.0.0.1:2380"}}, true),
	Entry("no learner with other peer URLs", etcdcluster.ListedMember{Learner: true, PeerURLs: []string{"http://main-0:2380"}}, false),
	Entry("no member with another name at the same peer URL", etcdcluster.ListedMember{Name: "other", PeerURLs: []string{"http://old-0:2380"}}, false),
)
