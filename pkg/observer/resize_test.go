// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// resizes records the dry runs of larger volumes.
type resizes struct {
	client.Writer

	sent     []string
	response error
}

func (r *resizes) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	options := client.PatchOptions{}
	options.ApplyOptions(opts)
	Expect(options.DryRun).To(ConsistOf(metav1.DryRunAll))
	data, err := patch.Data(obj)
	Expect(err).NotTo(HaveOccurred())
	r.sent = append(r.sent, obj.GetNamespace()+"/"+obj.GetName()+" "+string(data))

	return r.response
}

var _ = Describe("Dry runs of larger volumes", func() {
	var (
		ctx     = context.Background()
		dryRuns *resizes
		clock   *testclock.FakePassiveClock
		o       *observer.Observer
		claim   func() etcdcluster.Claim
	)

	BeforeEach(func() {
		scheme := clientgoscheme.Scheme
		Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace("demo"))
		object := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "main-main-0", UID: "uid", Labels: map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main"},
		}}
		object.Spec.StorageClassName = new("fast")
		object.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse("1Gi")}
		object.Status.Phase = corev1.ClaimBound
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: new(true)}
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(object, class).WithStatusSubresource(object).Build()
		dryRuns, clock = &resizes{}, testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		o = &observer.Observer{Reader: c, APIReader: c, Clock: clock, DryRun: dryRuns}
		claim = func() etcdcluster.Claim {
			GinkgoHelper()
			claims := o.Observe(ctx, etcd, observer.Request{StorageClasses: true}).Claims
			Expect(claims).NotTo(BeEmpty())

			return claims[0]
		}
	})

	It("record what the API server rejects, and repeat it a minute later", func() {
		dryRuns.response = apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "main-main-0", errors.New("exceeded quota"))
		rejected := claim()
		Expect(rejected.RefusedWhy).To(ContainSubstring("exceeded quota"))
		Expect(rejected.RefusedSize).To(BeNumerically(">", int64(1)<<30))
		Expect(dryRuns.sent).To(ConsistOf(`demo/main-main-0 {"metadata":{"uid":"uid"},"spec":{"resources":{"requests":{"storage":"16Gi"}}}}`))

		clock.SetTime(clock.Now().Add(59 * time.Second))
		Expect(claim()).To(Equal(rejected))
		Expect(dryRuns.sent).To(HaveLen(1), "the rejection is cached")

		clock.SetTime(clock.Now().Add(time.Second))
		dryRuns.response = nil
		Expect(claim().RefusedSize).To(BeZero())
		Expect(dryRuns.sent).To(HaveLen(2))
	})

	It("say nothing if they end in another error", func() {
		dryRuns.response = errors.New("a webhook does not support dry runs")
		Expect(claim().RefusedSize).To(BeZero())
		Expect(claim().Expandable).To(HaveValue(BeTrue()))
	})

	It("are not sent by an observer that must not write", func() {
		o.DryRun = nil
		Expect(claim().Expandable).To(HaveValue(BeTrue()))
		Expect(dryRuns.sent).To(BeEmpty())
	})
})
