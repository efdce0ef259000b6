// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"errors"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

var _ = Describe("The Jobs that inspect databases", func() {
	var (
		ctx  = context.Background()
		etcd *druidv1alpha1.Etcd
	)
	build := func(calls interceptor.Funcs, objects ...client.Object) client.Client {
		return fakeclient.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(calls).Build()
	}
	inspection := func(ordinal int, uid types.UID, conditions ...batchv1.JobConditionType) *batchv1.Job {
		job := compaction.InspectionJob(compaction.Values{Etcd: etcd, HelperImage: "image"}, compaction.InspectedClaim{Name: "main-main-x", UID: "claim", Ordinal: ordinal})
		job.UID = uid
		for _, condition := range conditions {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
		}

		return job
	}
	podOf := func(job *batchv1.Job, message string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-x", Labels: job.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "inspect", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}},
			}}},
		}
	}
	observe := func(cached, live client.Client) etcdcluster.Observation {
		return (&observer.Observer{Reader: cached, APIReader: live}).Observe(ctx, etcd, observer.Request{RestoreVerification: true})
	}

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Spec.Replicas = 3
	})

	It("are read with their results, sorted by name, and without those of something else", func() {
		done, running, foreign := inspection(2, "two", batchv1.JobComplete), inspection(1, "one"), inspection(0, "zero", batchv1.JobComplete)
		foreign.OwnerReferences = nil
		c := build(interceptor.Funcs{}, done, running, foreign, podOf(done, `{"revision":7,"keys":3,"hash":1}`))
		Expect(observe(c, c).Inspections).To(Equal([]etcdcluster.ClaimInspection{
			{Name: "main-1-inspect", UID: "one", OwnerUID: "etcd-uid", Claim: "main-main-x", ClaimUID: "claim"},
			{Name: "main-2-inspect", UID: "two", OwnerUID: "etcd-uid", Claim: "main-main-x", ClaimUID: "claim", Result: &etcdcluster.Inspection{Revision: 7, Keys: 3, Hash: 1}},
		}))
	})

	It("have their result although the cache does not contain it yet", func() {
		done := inspection(0, "zero", batchv1.JobComplete)
		cached := build(interceptor.Funcs{}, done)
		live := build(interceptor.Funcs{}, done, podOf(done, `{"revision":7,"keys":3,"hash":1}`))
		Expect(observe(cached, live).Inspections).To(ConsistOf(HaveField("Result", HaveValue(HaveField("Revision", int64(7))))))
	})

	It("cost no request to the API server while they run", func() {
		live := build(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("not expected")
		}})
		statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main"}} // without it, the Etcd is new
		running := inspection(0, "zero")
		running.Status.Active = 1
		observed := observe(build(interceptor.Funcs{}, running, statefulSet), live)
		Expect(observed.Failures).To(BeEmpty())
		Expect(observed.Inspections).To(HaveLen(1))
	})

	It("have the reason for which their pods are not created", func() {
		job := inspection(0, "zero")
		live := build(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if events, is := list.(*corev1.EventList); is {
				events.Items = []corev1.Event{{
					Reason: "FailedCreate", Message: `Error creating: pods "main-0-inspect-" is forbidden: exceeded quota`,
					InvolvedObject: corev1.ObjectReference{UID: job.UID}, LastTimestamp: metav1.Now(),
				}}
			}

			return nil
		}})
		observed := observe(build(interceptor.Funcs{}, job), live)
		Expect(observed.Inspections).To(ConsistOf(HaveField("Message",
			`Job main-0-inspect cannot create a pod: pods "main-0-inspect-" is forbidden: exceeded quota; correct the field, the quota, or the policy in this message`)))
		Expect(observed.StartProblems()).To(HaveLen(1))
	})

	It("are reported as not read if they cannot be read", func() {
		calls := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*batchv1.JobList); ok {
				return errors.New("refused")
			}

			return c.List(ctx, list, options...)
		}}
		c := build(calls)
		Expect(observe(c, c).Failures).To(ContainElement(HaveField("Section", etcdcluster.SectionRestoreVerification)))
	})

	It("find the clusters that have lost their quorum at about the same time while the loss of a quorum is recorded", func() {
		ready := func(name, status, reason, since string) *druidv1alpha1.Etcd {
			at, err := time.Parse(time.TimeOnly, since)
			Expect(err).NotTo(HaveOccurred())
			other := &druidv1alpha1.Etcd{}
			other.Name, other.Namespace, other.UID = name, "demo", types.UID(name)
			other.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: druidv1alpha1.ConditionStatus(status), Reason: reason, LastTransitionTime: metav1.NewTime(at.AddDate(2026, 0, 0))}}

			return other
		}
		resource := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "druid-main", Annotations: map[string]string{
			"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"recovery":{"lostAt":"2026-01-01T12:00:00Z"}}`,
		}}}
		lost := []client.Object{
			ready("b", "Unknown", "Unknown", "13:10:00"), ready("a", "False", "QuorumLost", "11:00:00"), ready("c", "False", "QuorumLost", "10:59:59"),
			ready("d", "True", "Quorate", "12:00:00"), ready("e", "Unknown", "NoMembersInStatus", "12:00:00"),
		}
		reader := build(interceptor.Funcs{}, append(lost, resource)...)
		Expect(observe(reader, reader).ClustersWithoutQuorum).To(Equal([]string{"demo/a", "demo/b"}), "also one whose members may be cut off from the operator, and none that had lost its quorum long before")
		reader = build(interceptor.Funcs{}, lost...)
		Expect(observe(reader, reader).ClustersWithoutQuorum).To(BeEmpty())
	})
})
