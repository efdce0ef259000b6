// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The record of the operator", func() {
	const prefix = "etcd-druid.extensions.gardener.cloud/"
	var (
		ctx  = context.Background()
		k    *kube.Cluster
		o    *operator
		read = func() *resourcesv1alpha1.ManagedResource {
			mr := &resourcesv1alpha1.ManagedResource{}
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-main"}, mr))
			return mr
		}
		own = func(mr *resourcesv1alpha1.ManagedResource) []string {
			var keys []string
			for key := range mr.Annotations {
				if name, is := strings.CutPrefix(key, prefix); is {
					keys = append(keys, name)
				}
			}
			return keys
		}
	)

	BeforeEach(func() {
		k = kube.New(scheme)
		o = startOperator(k, nil)
		create(3, plaintext)(k)
		o.run()
		Expect(k.PodsCreated).To(Equal(4), "the first of them twice")
	})

	It("has the revision that a quorum confirms when a member is added or a volume is deleted, and nothing between", func() {
		added := fixture.Record(read()).Evidence
		Expect(added).To(HaveField("Voters", HaveLen(2)), "before the third member")
		for range 3 {
			write(k)
		}
		o.run()
		Expect(fixture.Record(read()).Evidence).To(Equal(added), "no act depends on it")
		loseNode(k)
		o.run()
		Expect(o.events).To(ContainElement(HavePrefix("ReplacingVolume")))
		Expect(fixture.Record(read()).Evidence).To(And(HaveField("HighestRevision", k.EtcdCluster().Revision()), HaveField("Voters", HaveLen(3))))
	})

	It("has the revision that a user accepts, and the annotation is removed soon after", func() {
		mr := read()
		var err error
		mr.Annotations, err = state.Update(mr.Annotations, func(s *state.State) {
			s.Evidence.HighestRevision, s.Evidence.RolledBack = 42, &state.RolledBack{Revision: 7, ClusterID: s.Evidence.ClusterID, At: k.Clock.Now()}
		})
		must(err)
		must(k.Client(nil).Update(ctx, mr))
		update(func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/accept-revision", "7")
		})(k)
		o.due = k.Clock.Now()
		o.reconcileOnce()
		Expect(fixture.Record(read()).Evidence).To(And(HaveField("AcceptedRevision", BeEquivalentTo(7)), HaveField("RolledBack", BeNil())))
		Expect(k.EtcdObject().Annotations).To(HaveKey("druid.gardener.cloud/accept-revision"))
		Expect(o.due).To(And(Not(BeZero()), BeTemporally("<=", k.Clock.Now().Add(2*time.Second))), "no watch reports the record")
		o.due = k.Clock.Now()
		o.reconcileOnce()
		Expect(k.EtcdObject().Annotations).NotTo(HaveKey("druid.gardener.cloud/accept-revision"))
	})

	It("is the only annotation of the operator in addition to that of the store", func() {
		Expect(own(read())).To(ConsistOf("state"))
	})

	DescribeTable("is never guessed", func(text, message string, isRequested bool) {
		mr := read()
		mr.Annotations[prefix+"state"] = text
		must(k.Client(nil).Update(ctx, mr))
		if isRequested {
			update(func(*druidv1alpha1.Etcd) {})(k)
		}

		o.due = k.Clock.Now()
		o.reconcileOnce()
		if isRequested {
			Expect(k.EtcdObject().Status.LastErrors).To(ConsistOf(HaveField("Description", ContainSubstring(message))))
		}
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(
			HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring(message)))))
		Expect(o.due).NotTo(BeZero(), "it is read again")
		Expect(read().Annotations[prefix+"state"]).To(Equal(text))
		Expect(k.PodsCreated).To(Equal(4))
	},
		Entry("if it cannot be read", `{"version":1,`, "cannot be read", true),
		Entry("if it cannot be read, and no annotation requests a reconciliation", `{"version":1,`, "cannot be read", false),
		Entry("if a newer operator wrote it", `{"version":2,"size":5}`, "use the operator that wrote it, or a newer one", true),
		Entry("if it has no version", `{}`, "has no version", true),
	)
})
