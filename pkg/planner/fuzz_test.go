// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"testing"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// FuzzFor checks that each record and each member list results in a plan. Members are not trusted, and the record may be of another version.
func FuzzFor(f *testing.F) {
	f.Add(`{"version":1,"size":3,"replicas":3}`, `[{"ID":161,"Name":"main-0","PeerURLs":["http://main-0.main-peer.demo.svc:2380"]}]`)
	f.Add(`{"version":1,"size":1,"replicas":2,"surge":{"phase":"Return","since":"2026-01-01T12:00:00Z"}}`, `[{"ID":1},{"ID":1,"Name":"main-1","Learner":true}]`)
	f.Add(`{"version":1,"size":3,"replicas":2,"scale":{"from":3,"to":1},"migration":{"phase":"Remove"}}`, `[{"Name":"old-0"},{"Name":"main-99"},{"Name":"main--1"}]`)
	f.Add(`{"version":1,"restore":"Discard","recovery":{},"inconsistency":{"comparisons":3,"members":[{"name":"main-0","id":"a1"},{"name":"main-9","id":"zz"}]}}`, "[]")
	f.Add(`{"version":1,"size":-1,"replicas":33,"podSize":1,"existing":{"members":[{}]},"accepted":{"generation":1}}`, "[{},{},{}]")
	s := newScenario(3, withStore)
	s.run()
	observed := s.Observe()
	f.Fuzz(func(t *testing.T, record, members string) {
		o := observed
		var err error
		if o.State, err = state.Decode(map[string]string{druidv1alpha1.ManagedResourceAnnotationState: record}); err != nil {
			return
		}
		var listed []etcdcluster.ListedMember
		if json.Unmarshal([]byte(members), &listed) != nil {
			return
		}
		o.Etcd.MemberList = listed
		for _, size := range []int32{3, 1, 0} {
			etcd := s.Etcd.DeepCopy()
			etcd.Spec.Replicas = size
			if plan := planner.For(etcd, o, s.Now()); plan.Stage == "" {
				t.Errorf("no stage with %d replicas, the record %s and the members %s", size, record, members)
			}
			_ = planner.ForRepair(etcd, o, s.Now())
			_, _, _ = consistency.VotersOf(etcd, o)
		}
	})
}
