// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"time"

	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	roundTrips    = 300
	roundTripSeed = 20260723
)

var _ = Describe("Round trip", func() {
	DescribeTable("random objects of the etcd-druid API module survive our types",
		func(newUpstream, newOurs func() runtime.Object) {
			filler := newFiller()
			for i := range roundTrips {
				original := newUpstream()
				filler.Fill(original)

				ours, decoded := newOurs(), newUpstream()
				Expect(json.Unmarshal(marshal(original), ours)).To(Succeed())
				Expect(yaml.UnmarshalStrict(marshal(ours), decoded)).To(Succeed(), "the JSON has a field that the module does not contain")

				Expect(equality.Semantic.DeepEqual(original, decoded)).To(BeTrue(), "object %d:\n%s\nbecame\n%s", i, marshal(original), marshal(decoded))
			}
		},
		Entry("Etcd", func() runtime.Object { return &upstreamv1alpha1.Etcd{} }, func() runtime.Object { return &druidv1alpha1.Etcd{} }),
		Entry("EtcdCopyBackupsTask", func() runtime.Object { return &upstreamv1alpha1.EtcdCopyBackupsTask{} },
			func() runtime.Object { return &druidv1alpha1.EtcdCopyBackupsTask{} }),
		Entry("EtcdOpsTask", func() runtime.Object { return &upstreamv1alpha1.EtcdOpsTask{} },
			func() runtime.Object { return &druidv1alpha1.EtcdOpsTask{} }),
	)

	DescribeTable("random objects survive JSON, with the additional fields of this module",
		func(newObject func() runtime.Object) {
			filler := newFiller()
			for range roundTrips {
				original, decoded := newObject(), newObject()
				filler.Fill(original)

				Expect(yaml.UnmarshalStrict(marshal(original), decoded)).To(Succeed())
				Expect(equality.Semantic.DeepEqual(original, decoded)).To(BeTrue(), "%s\nbecame\n%s", marshal(original), marshal(decoded))
			}
		},
		Entry("Etcd", func() runtime.Object { return &druidv1alpha1.Etcd{} }),
		Entry("EtcdCopyBackupsTask", func() runtime.Object { return &druidv1alpha1.EtcdCopyBackupsTask{} }),
		Entry("EtcdOpsTask", func() runtime.Object { return &druidv1alpha1.EtcdOpsTask{} }),
	)

	DescribeTable("deep copies are equal and share nothing",
		func(newObject func() runtime.Object) {
			filler := newFiller()
			for range roundTrips {
				original := newObject()
				filler.Fill(original)
				before := marshal(original)

				copied := original.DeepCopyObject()
				Expect(copied).To(Equal(original))
				filler.Fill(copied)
				Expect(marshal(original)).To(MatchJSON(before))
			}
		},
		Entry("Etcd", func() runtime.Object { return &druidv1alpha1.Etcd{} }),
		Entry("EtcdCopyBackupsTask", func() runtime.Object { return &druidv1alpha1.EtcdCopyBackupsTask{} }),
		Entry("EtcdOpsTask", func() runtime.Object { return &druidv1alpha1.EtcdOpsTask{} }),
	)

	It("registers the same kinds as the module", func() {
		ours, upstream := runtime.NewScheme(), runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(ours)).To(Succeed())
		Expect(upstreamv1alpha1.AddToScheme(upstream)).To(Succeed())

		Expect(kindNames(ours)).To(Equal(kindNames(upstream)))
	})
})

// newFiller makes a filler whose values exist in JSON: whole seconds, canonical quantities, valid text.
func newFiller() *randfill.Filler {
	return randfill.NewWithSeed(randomSeed(roundTripSeed)).NilChance(0.3).NumElements(1, 3).MaxDepth(20).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(4e9), 0) },
		func(d *metav1.Duration, c randfill.Continue) { d.Duration = time.Duration(c.Int63n(1e15)) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(fmt.Sprintf("%dMi", c.Intn(1e6)))
		},
		func(s *string, c randfill.Continue) { *s = fmt.Sprintf("text-%x", c.Uint32()) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte("{}")) },
	).RandSource(rand.NewSource(randomSeed(roundTripSeed)))
}

func marshal(object any) []byte {
	GinkgoHelper()
	data, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())

	return data
}

func kindNames(scheme *runtime.Scheme) map[string]bool {
	names := map[string]bool{}
	for kind, goType := range scheme.KnownTypes(druidv1alpha1.SchemeGroupVersion) {
		if goType.Kind() == reflect.Struct {
			names[kind] = true
		}
	}

	return names
}
