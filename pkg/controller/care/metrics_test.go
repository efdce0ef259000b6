// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// sees is an observer that always returns the same observation.
type sees etcdcluster.Observation

func (s sees) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	return etcdcluster.Observation(s)
}

var _ = Describe("The versions of members", func() {
	var (
		etcd    *druidv1alpha1.Etcd
		status  int
		prunes  bool
		request reconcile.Request
		r       *care.Reconciler
		c       client.Client
	)

	BeforeEach(func() {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd = &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.Spec.Replicas = "measured", "main", 1
		status, prunes = 0, false
		c = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				status++
				if err := c.SubResource(subResource).Patch(ctx, obj, patch, opts...); err != nil || !prunes {
					return err
				}
				members := obj.(*druidv1alpha1.Etcd).Status.Members
				for i := range members {
					members[i].EtcdVersion, members[i].WrapperVersion, members[i].SidecarVersion = nil, nil, nil
				}

				return c.SubResource(subResource).Update(ctx, obj)
			},
		}).Build()
		r = &care.Reconciler{
			Client: c, Clock: testclock.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)), Recorder: events.NewFakeRecorder(100), Config: care.Config{SyncPeriod: time.Minute},
			Observer: sees{
				StatefulSet: etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1},
				Pods: []etcdcluster.Pod{{Name: "main-0", Ready: true, Containers: []etcdcluster.Container{
					{Name: "etcd", Image: "example.com/etcd-wrapper:v0.7.0"}, {Name: "backup-restore", Image: "example.com/etcdbrctl:v0.43.0"},
				}}},
				Etcd: etcdcluster.EtcdResponses{Queried: true, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1, Version: "3.5.27"}}},
			},
		}
		request = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)}
	})

	It("are in the status and in a metric while the Etcd exists", func(ctx SpecContext) {
		for range 2 {
			_, err := r.Reconcile(ctx, request)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(status).To(Equal(1))
		Expect(c.Get(ctx, request.NamespacedName, etcd)).To(Succeed())
		Expect(etcd.Status.Members).To(ConsistOf(And(
			HaveField("EtcdVersion", HaveValue(Equal("3.5.27"))), HaveField("WrapperVersion", HaveValue(Equal("v0.7.0"))), HaveField("SidecarVersion", HaveValue(Equal("v0.43.0"))),
		)))
		Expect(versions()).To(ConsistOf("etcd=main etcd_namespace=measured etcd_version=3.5.27 member=main-0 sidecar_version=v0.43.0 wrapper_version=v0.7.0"))

		Expect(c.Delete(ctx, etcd)).To(Succeed())
		_, err := r.Reconcile(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(versions()).To(BeEmpty())
	})

	It("are those of the last reconciliation", func(ctx SpecContext) {
		_, err := r.Reconcile(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		updated := r.Observer.(sees)
		updated.Etcd.Members[0].Version = "3.5.28"
		_, err = r.Reconcile(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(versions()).To(ConsistOf(ContainSubstring("etcd_version=3.5.28")))
		Expect(c.Delete(ctx, etcd)).To(Succeed())
		_, err = r.Reconcile(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(versions()).To(BeEmpty())
	})

	It("are not written again if the API server removes them from the status", func(ctx SpecContext) {
		prunes = true
		for range 3 {
			_, err := r.Reconcile(ctx, request)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(status).To(Equal(1))
		Expect(c.Get(ctx, request.NamespacedName, etcd)).To(Succeed())
		Expect(etcd.Status.Members).To(ConsistOf(HaveField("EtcdVersion", BeNil())))
	})
})

var _ = Describe("The retained volumes", func() {
	It("are counted with the time of the oldest one, while the record names any", func(ctx SpecContext) {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd := &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.Spec.Replicas = "measured", "main", 1
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build()
		now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		r := &care.Reconciler{Client: c, Clock: testclock.NewFakeClock(now), Recorder: events.NewFakeRecorder(100), Config: care.Config{SyncPeriod: time.Minute}}
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)}
		observe := func(retained ...state.RetainedVolume) {
			GinkgoHelper()
			r.Observer = sees{StatefulSet: etcdcluster.StatefulSet{Exists: true}, State: state.State{Retained: retained}}
			_, err := r.Reconcile(ctx, request)
			Expect(err).NotTo(HaveOccurred())
		}
		const number, oldest = "etcd_druid_retained_volumes", "etcd_druid_retained_volumes_oldest_timestamp_seconds"

		observe(state.RetainedVolume{Name: "a", At: now}, state.RetainedVolume{Name: "b", At: now.Add(-time.Hour)})
		Expect(gauges(number)).To(Equal(map[string]float64{"main": 2}))
		Expect(gauges(oldest)).To(Equal(map[string]float64{"main": float64(now.Add(-time.Hour).Unix())}))

		observe()
		Expect(gauges(number)).To(BeEmpty())
		Expect(gauges(oldest)).To(BeEmpty())
	})
})

var _ = Describe("The expiration of certificates", func() {
	It("is exposed only while the Etcd exists", func(ctx SpecContext) {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd := &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.Spec.Replicas = "measured", "main", 1
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build()
		notAfter := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		r := &care.Reconciler{
			Client: c, Clock: testclock.NewFakeClock(notAfter.Add(-time.Hour)), Recorder: events.NewFakeRecorder(100), Config: care.Config{SyncPeriod: time.Minute},
			Observer: sees{
				StatefulSet: etcdcluster.StatefulSet{Exists: true, TLS: etcdcluster.MountedTLS{Server: "server"}},
				Secrets:     []etcdcluster.Secret{{Name: "server", Exists: true, Certificates: []etcdcluster.Certificate{{Key: "tls.crt", NotAfter: notAfter}}}},
			},
		}
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)}

		_, err := r.Reconcile(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(gauges("etcd_druid_certificate_expiration_timestamp_seconds")).To(HaveKeyWithValue("main server tls.crt", float64(notAfter.Unix())))

		Expect(c.Delete(ctx, etcd)).To(Succeed())
		_, err = r.Reconcile(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(gauges("etcd_druid_certificate_expiration_timestamp_seconds")).To(BeEmpty())
	})
})

// versions returns the labels of the member versions.
func versions() []string {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, family := range families {
		if family.GetName() != "etcd_druid_member_version_info" {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetName()+"="+label.GetValue())
			}
			found = append(found, strings.Join(values, " "))
		}
	}

	return found
}

// gauges returns a metric of the namespace measured. The key has the Etcd, and the Secret and its key if the metric is about one.
func gauges(name string) map[string]float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["etcd_namespace"] == "measured" {
				found[strings.TrimSpace(labels["etcd"]+" "+labels["secret"]+" "+labels["key"])] = metric.GetGauge().GetValue()
			}
		}
	}
	return found
}
