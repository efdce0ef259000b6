// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var _ = DescribeTable("CountsFor",
	func(change func(*druidv1alpha1.Etcd, *etcdcluster.Observation), ready bool) {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Generation = 2
		etcd.Status.ObservedGeneration = new(int64(2))
		etcd.Spec.Replicas = 1
		o := etcdcluster.Observation{
			StatefulSet: etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1, Replicas: 1, ReadyReplicas: 1, UpdateRevision: "a"},
			Pods:        []etcdcluster.Pod{{Name: "main-0", RevisionHash: "a"}},
		}
		change(etcd, &o)
		Expect(conditions.CountsFor(etcd, o, false).Ready).To(Equal(ready))
		Expect(conditions.CountsFor(etcd, o, false).CurrentReplicas).To(Equal(o.StatefulSet.Replicas))
	},
	Entry("is ready when the pod is ready and updated", func(*druidv1alpha1.Etcd, *etcdcluster.Observation) {}, true),
	Entry("is not ready without a StatefulSet", func(_ *druidv1alpha1.Etcd, o *etcdcluster.Observation) { o.StatefulSet = etcdcluster.StatefulSet{} }, false),
	Entry("is not ready while the pod is not", func(_ *druidv1alpha1.Etcd, o *etcdcluster.Observation) { o.StatefulSet.ReadyReplicas = 0 }, false),
	Entry("is not ready while the pod is outdated", func(_ *druidv1alpha1.Etcd, o *etcdcluster.Observation) { o.StatefulSet.UpdateRevision = "b" }, false),
	Entry("is not ready before the StatefulSet controller has seen the spec", func(_ *druidv1alpha1.Etcd, o *etcdcluster.Observation) { o.StatefulSet.Generation = 2 }, false),
	Entry("is not ready while it should be larger", func(e *druidv1alpha1.Etcd, _ *etcdcluster.Observation) { e.Spec.Replicas = 3 }, false),
	Entry("uses the previous spec while the latest generation is not rolled out", func(e *druidv1alpha1.Etcd, _ *etcdcluster.Observation) { e.Generation, e.Spec.Replicas = 3, 3 }, true),
	Entry("is ready when it hibernates and no pod is left", func(e *druidv1alpha1.Etcd, o *etcdcluster.Observation) {
		e.Spec.Replicas, o.Pods, o.StatefulSet = 0, nil, etcdcluster.StatefulSet{Exists: true}
	}, true),
	Entry("is ready without pods if the members are managed externally", func(e *druidv1alpha1.Etcd, o *etcdcluster.Observation) {
		e.Spec.Replicas, e.Spec.ExternallyManagedMemberAddresses = 1, []string{"10.0.0.1"}
		o.Pods, o.StatefulSet = nil, etcdcluster.StatefulSet{Exists: true}
	}, true),
	Entry("is not ready while clients cannot use it", reported("False", "CertificatesInvalid"), false),
	Entry("is ready while it is not known whether clients can use it", reported("Unknown", "Unknown"), true),
	Entry("does not depend on what was observed before it hibernated", reported("False", "NotChecked"), true),
	Entry("is not ready when it hibernates and a pod is left", func(e *druidv1alpha1.Etcd, _ *etcdcluster.Observation) { e.Spec.Replicas = 0 }, false),
)

// reported adds the condition Ready.
func reported(status druidv1alpha1.ConditionStatus, reason string) func(*druidv1alpha1.Etcd, *etcdcluster.Observation) {
	return func(e *druidv1alpha1.Etcd, _ *etcdcluster.Observation) {
		e.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: status, Reason: reason}}
	}
}

var _ = DescribeTable("CountsFor of a generation that keeps outdated pods", func(readyPods int32, expected bool) {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Generation, etcd.Status.ObservedGeneration, etcd.Spec.Replicas = 2, new(int64(2)), 1
	o := etcdcluster.Observation{
		StatefulSet: etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1, Replicas: 1, ReadyReplicas: readyPods, UpdateRevision: "b"},
		Pods:        []etcdcluster.Pod{{Name: "main-0", RevisionHash: "a"}},
	}
	Expect(conditions.CountsFor(etcd, o, true).Ready).To(Equal(expected))
},
	Entry("is ready when the outdated pod is ready", int32(1), true),
	Entry("is not ready while the outdated pod is not", int32(0), false),
)
