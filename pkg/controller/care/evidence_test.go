// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"context"
	"errors"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// observed is an observer that returns one observation.
type observed struct{ etcdcluster.Observation }

func (o *observed) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	return o.Observation
}

var _ = Describe("The evidence of a quorum", func() {
	const annotation = "etcd-druid.extensions.gardener.cloud/state"
	var (
		etcd        *druidv1alpha1.Etcd
		mr          *resourcesv1alpha1.ManagedResource
		c           client.Client
		clock       *testclock.FakeClock
		observation *observed
		r           *care.Reconciler
		rejected    error
	)

	BeforeEach(func() {
		rejected = nil
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd = &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.Spec.Replicas = "demo", "main", 1
		mr = &resourcesv1alpha1.ManagedResource{}
		mr.Namespace, mr.Name, mr.UID = "demo", "druid-main", "mr-uid"
		mr.Annotations = map[string]string{annotation: `{"version":1,"size":1}`, "other": "stays"}
		c = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd, mr).WithStatusSubresource(etcd).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, is := object.(*resourcesv1alpha1.ManagedResource); is && rejected != nil {
					return rejected
				}

				return c.Patch(ctx, object, patch, options...)
			},
		}).Build()
		clock = testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		observation = &observed{etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main", UID: "mr-uid"}, State: state.State{Size: 1},
			Etcd: etcdcluster.EtcdResponses{
				Queried: true, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, ClusterID: 7, RaftTerm: 2, QuorumRevision: 42}},
				MemberList: []etcdcluster.ListedMember{{ID: 0xa, Name: "main-0"}},
			},
		}}
		r = &care.Reconciler{
			Client: c, Clock: clock, Recorder: events.NewFakeRecorder(100), Config: care.Config{SyncPeriod: time.Minute}, Observer: observation,
		}
	})
	// recorded reconciles the Etcd and returns the record.
	recorded := func(ctx context.Context) string {
		GinkgoHelper()
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
		Expect(mr.Annotations).To(HaveKeyWithValue("other", "stays"))

		return mr.Annotations[annotation]
	}

	It("is recorded, and an idle cluster writes nothing more", func(ctx SpecContext) {
		first := recorded(ctx)
		Expect(first).To(MatchJSON(`{"version":1,"size":1,"evidence":{"highestRevision":42,"clusterID":"7","term":2,"at":"2026-01-01T12:00:00Z","voters":[{"name":"main-0","id":"a"}]}}`))
		version := mr.ResourceVersion
		clock.Step(time.Hour)
		var err error
		observation.State, err = state.Decode(mr.Annotations)
		Expect(err).NotTo(HaveOccurred())
		Expect(recorded(ctx)).To(Equal(first))
		Expect(mr.ResourceVersion).To(Equal(version))
	})

	It("does not overwrite a record that has changed since the observation", func(ctx SpecContext) {
		observation.State.Size = 3
		Expect(recorded(ctx)).To(Equal(`{"version":1,"size":1}`))
	})

	It("is not recorded without a quorum", func(ctx SpecContext) {
		observation.Etcd.Members[0].Healthy = false
		Expect(recorded(ctx)).To(Equal(`{"version":1,"size":1}`))
	})

	It("reports the health of the members although the record is rejected", func(ctx SpecContext) {
		rejected = errors.New("failed calling webhook: connection refused")
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).To(MatchError(rejected))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Status.Conditions).NotTo(BeEmpty())
	})

	It("observes again soon if another writer changes the record", func(ctx SpecContext) {
		rejected = apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), mr.Name, errors.New("changed"))
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically("<", time.Second))
	})

	It("is not recorded on a ManagedResource of another UID or one that is being deleted", func(ctx SpecContext) {
		observation.ManagedResource.UID = "other"
		Expect(recorded(ctx)).To(Equal(`{"version":1,"size":1}`))
		observation.ManagedResource.UID, observation.ManagedResource.Deleting = "mr-uid", true
		Expect(recorded(ctx)).To(Equal(`{"version":1,"size":1}`))
	})

	It("does not overwrite a ManagedResource that has changed since it was read", func(ctx SpecContext) {
		patched := false
		r.Client = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, is := object.(*resourcesv1alpha1.ManagedResource); is {
					patched = true
					newer := mr.DeepCopy()
					newer.Annotations[annotation] = `{"version":1,"size":3}`
					Expect(c.Update(ctx, newer)).To(Succeed())
				}

				return c.Patch(ctx, object, patch, options...)
			},
		})
		Expect(c.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
		Expect(recorded(ctx)).To(Equal(`{"version":1,"size":3}`))
		Expect(patched).To(BeTrue())
	})
})
