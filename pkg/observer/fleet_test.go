// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The fleet", func() {
	var (
		ctx     = context.Background()
		since   = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		objects []client.Object
		lists   int
	)

	images := state.Images{EtcdWrapper: "example.com/etcd-wrapper:v1", BackupRestore: "example.com/etcdbrctl:v1"}
	condition := func(conditionType druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus) func(*druidv1alpha1.Etcd) {
		return func(etcd *druidv1alpha1.Etcd) {
			etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{Type: conditionType, Status: status, LastTransitionTime: since})
		}
	}
	ready := func(etcd *druidv1alpha1.Etcd) {
		condition(druidv1alpha1.ConditionTypeReady, "True")(etcd)
		condition(druidv1alpha1.ConditionTypeAllMembersReady, "True")(etcd)
	}
	// add adds an Etcd with its record, and a pod on the node.
	add := func(name, node string, change func(*state.State), options ...func(*druidv1alpha1.Etcd)) string {
		etcd := fixture.Etcd(append([]func(*druidv1alpha1.Etcd){fixture.WithNamespace("demo"), fixture.WithName(name)}, options...)...)
		recorded := state.State{Size: 1, Accepted: &state.Accepted{Generation: 1, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": images}}}}
		if change != nil {
			change(&recorded)
		}
		annotations, err := recorded.Encode()
		Expect(err).NotTo(HaveOccurred())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name + "-0", Labels: helper.DefaultLabels(etcd)}, Spec: corev1.PodSpec{NodeName: node}}
		pod.Labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameStatefulSet
		objects = append(objects, etcd, pod, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: helper.ManagedResourceName(etcd), UID: types.UID(name), Annotations: annotations}})

		return rollout.Fingerprint(etcd.Spec, *recorded.Accepted)
	}
	fleet := func(funcs interceptor.Funcs) *observer.Fleet {
		for _, name := range []string{"a", "b"} {
			objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, Labels: map[string]string{corev1.LabelTopologyZone: "zone-" + name}}})
		}
		c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(objects...).Build()

		return &observer.Fleet{Observer: &observer.Observer{Reader: c, APIReader: interceptor.NewClient(c, funcs)}}
	}
	counting := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		lists++

		return c.List(ctx, list, opts...)
	}}
	clusters := func(f *observer.Fleet) map[string]rollout.Cluster {
		GinkgoHelper()
		found, err := f.Clusters(ctx)
		Expect(err).NotTo(HaveOccurred())
		byKey := map[string]rollout.Cluster{}
		for _, c := range found {
			c.HealthChangedAt = c.HealthChangedAt.UTC()
			byKey[c.Key] = c
		}

		return byKey
	}

	BeforeEach(func() { objects, lists = nil, 0 })

	It("contains the state of each Etcd that the operator has rendered", func() {
		v1 := add("healthy", "node-a", nil, ready, fixture.WithReplicas(3))
		update := &state.Rollout{Change: state.Change{From: "v0", To: v1}, StartedAt: since.UTC()}
		add("updated", "node-b", func(s *state.State) { s.Rollout = update }, ready)
		add("other", "", func(s *state.State) { s.Rollout = &state.Rollout{Change: state.Change{From: "v0", To: "v9"}} }, condition(druidv1alpha1.ConditionTypeReady, "True"), condition(druidv1alpha1.ConditionTypeAllMembersReady, "False"))
		add("hibernated", "", nil, fixture.WithReplicas(0))
		add("suspended", "", nil, fixture.WithAnnotation(druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, ""))
		add("new", "", func(s *state.State) { s.Size = 0 })
		objects = append(objects, fixture.Etcd(fixture.WithNamespace("demo"), fixture.WithName("unrendered")))
		f, uid := fleet(counting), fixture.Etcd().UID
		for range 3 {
			Expect(clusters(f)).To(Equal(map[string]rollout.Cluster{
				"demo/healthy":    {Key: "demo/healthy", UID: uid, Zones: []string{"zone-a"}, Defaults: v1, Members: 3, Healthy: true, HealthChangedAt: since.Time},
				"demo/updated":    {Key: "demo/updated", UID: uid, Zones: []string{"zone-b"}, Defaults: v1, Update: update, Members: 1, Healthy: true, HealthChangedAt: since.Time},
				"demo/other":      {Key: "demo/other", UID: uid, Defaults: v1, Members: 1, HealthChangedAt: since.Time},
				"demo/hibernated": {Key: "demo/hibernated", UID: uid, Defaults: v1, Hibernated: true},
				"demo/suspended":  {Key: "demo/suspended", UID: uid, Defaults: v1, Members: 1, Suspended: true},
			}), "the update of \"other\" does not belong to its defaults")
		}
		Expect(lists).To(Equal(1), "the zones are cached")
	})

	It("reads a record again after it has changed", func() {
		v1 := add("main", "", nil)
		f := fleet(counting)
		Expect(clusters(f)["demo/main"].Defaults).To(Equal(v1))
		mr := &resourcesv1alpha1.ManagedResource{}
		Expect(f.Reader.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-main"}, mr)).To(Succeed())
		fixture.SetRecord(mr, func(s *state.State) {
			s.Accepted.Defaults.ImageSets["3.4"] = state.Images{EtcdWrapper: "example.com/etcd-wrapper:v2", BackupRestore: images.BackupRestore}
		})
		Expect(f.Reader.(client.Client).Update(ctx, mr)).To(Succeed())
		Expect(clusters(f)["demo/main"].Defaults).To(HavePrefix("etcd-wrapper:v2,"))
	})

	It("has no zones without the permission to list nodes", func() {
		add("main", "node-a", nil)
		f := fleet(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(corev1.Resource("nodes"), "", nil)
		}})
		Expect(clusters(f)).To(HaveKeyWithValue("demo/main", HaveField("Zones", BeEmpty())))
	})
})
