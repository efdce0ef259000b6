// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction_test

import (
	"fmt"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

// cluster is an accepted Etcd with a full snapshot at revision 1000.
type cluster struct {
	etcd        *druidv1alpha1.Etcd
	full, delta *coordinationv1.Lease
}

const (
	annotationState = "etcd-druid.extensions.gardener.cloud/state"
	accepted        = `"version":1,"accepted":{"generation":1,"defaults":{"imageSets":{"3.4":{"etcdWrapper":"w","backupRestore":"example.com/pinned:v1","init":"i"}}}}`
)

func newCluster(options ...func(*druidv1alpha1.Etcd)) *cluster {
	GinkgoHelper()
	namespace := env.Namespace(ctx, "compaction")
	etcd := fixture.Etcd(append([]func(*druidv1alpha1.Etcd){fixture.WithNamespace(namespace), fixture.WithStore("S3")}, options...)...)
	etcd.UID = ""
	Expect(env.Client.Create(ctx, etcd)).To(Succeed())
	Expect(env.Client.Create(ctx, &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "druid-test", Labels: map[string]string{"origin": "gardener-extension-etcd-druid"},
			Annotations: map[string]string{annotationState: "{" + accepted + "}"},
		},
		Spec: resourcesv1alpha1.ManagedResourceSpec{Class: new("seed"), SecretRefs: []corev1.LocalObjectReference{{Name: "x"}}},
	})).To(Succeed())
	Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-backup"}})).To(Succeed())
	c := &cluster{etcd: etcd}
	c.full, c.delta = c.createLease("test-full-snap", "1000"), c.createLease("test-delta-snap", "1000")

	return c
}

func (c *cluster) createLease(name, revision string) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.etcd.Namespace, Name: name, Labels: map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test", "app.kubernetes.io/component": "etcd-snapshot-lease",
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &revision},
	}
	Expect(env.Client.Create(ctx, lease)).To(Succeed())

	return lease
}

// createMember creates a healthy member with its pod on its own node. The member ID is the ordinal plus 1.
func (c *cluster) createMember(ordinal uint64) {
	GinkgoHelper()
	name, address := fmt.Sprintf("test-%d", ordinal), fmt.Sprintf("10.1.0.%d", ordinal+1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.etcd.Namespace, Labels: map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test", "app.kubernetes.io/component": "etcd-statefulset",
		}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", ordinal), Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}},
	}
	Expect(env.Client.Create(ctx, pod)).To(Succeed())
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	Expect(env.Client.Status().Update(ctx, pod)).To(Succeed())
	members.AddMember(ordinal+1, name, address+":2379")
}

// recordRevision records a revision on a snapshot lease, like the sidecar.
func (c *cluster) recordRevision(lease *coordinationv1.Lease, revision int) {
	GinkgoHelper()
	before := lease.DeepCopy()
	lease.Spec.HolderIdentity = new(fmt.Sprint(revision))
	Expect(env.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())
}

// record writes more keys into the record of the operator.
func (c *cluster) record(keys string) {
	GinkgoHelper()
	c.annotate(annotationState, "{"+accepted+","+keys+"}")
}

// annotate sets an annotation of the ManagedResource.
func (c *cluster) annotate(key, value string) {
	GinkgoHelper()
	mr := &resourcesv1alpha1.ManagedResource{}
	Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: c.etcd.Namespace, Name: "druid-test"}, mr)).To(Succeed())
	before := mr.DeepCopy()
	metav1.SetMetaDataAnnotation(&mr.ObjectMeta, key, value)
	Expect(env.Client.Patch(ctx, mr, client.MergeFrom(before))).To(Succeed())
}

// recordStore records the store of the cluster on the ManagedResource, like the operator.
func (c *cluster) recordStore(provider, container, prefix string) {
	GinkgoHelper()
	c.annotate("etcd-druid.extensions.gardener.cloud/store", fmt.Sprintf(`{"provider":%q,"container":%q,"prefix":%q}`, provider, container, prefix))
}

// recordStoreOnLease records on a snapshot lease the store of its snapshots.
func (c *cluster) recordStoreOnLease(lease *coordinationv1.Lease, location string) {
	GinkgoHelper()
	before := lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, "etcd-druid.extensions.gardener.cloud/store", location)
	Expect(env.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())
}

// waitForJob waits for the Job of an attempt.
func (c *cluster) waitForJob(attempt string) *batchv1.Job {
	GinkgoHelper()
	job := &batchv1.Job{}
	Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: c.etcd.Namespace, Name: "test-compactor"}, job)).To(Succeed())
		g.Expect(job.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/attempt", attempt))
		g.Expect(job.DeletionTimestamp).To(BeNil())
	}).Should(Succeed())

	return job
}

// jobNames returns the names of all Jobs.
func (c *cluster) jobNames() []string {
	list := &batchv1.JobList{}
	Expect(env.Client.List(ctx, list, client.InNamespace(c.etcd.Namespace))).To(Succeed())
	var names []string
	for _, job := range list.Items {
		names = append(names, job.Name)
	}

	return names
}

// createJobPod simulates the Job controller, which creates the pod.
func (c *cluster) createJobPod(job *batchv1.Job, status corev1.PodStatus) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, GenerateName: job.Name + "-", Labels: job.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "compact-backup", Image: "x"}}},
	}
	Expect(env.Client.Create(ctx, pod)).To(Succeed())
	pod.Status = status
	Expect(env.Client.Status().Update(ctx, pod)).To(Succeed())

	return pod
}

// endJob simulates the Job controller. It ends the Job with a run time of ten minutes.
func (c *cluster) endJob(job *batchv1.Job, conditionType batchv1.JobConditionType, reason string) {
	GinkgoHelper()
	end := metav1.NewTime(clock.Now())
	before := job.DeepCopy()
	job.Status.StartTime = &metav1.Time{Time: end.Add(-10 * time.Minute)}
	cause := batchv1.JobFailureTarget
	if conditionType == batchv1.JobComplete {
		cause = batchv1.JobSuccessCriteriaMet
		job.Status.CompletionTime, job.Status.Succeeded = &end, 1
	}
	for _, one := range []batchv1.JobConditionType{cause, conditionType} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: one, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: end, LastProbeTime: end})
	}
	Expect(env.Client.Status().Patch(ctx, job, client.MergeFrom(before))).To(Succeed())
}

// failJob simulates the Job controller. It ends the Job as failed because its container exited with an error.
func (c *cluster) failJob(job *batchv1.Job) {
	GinkgoHelper()
	c.createJobPod(job, exited)
	c.endJob(job, batchv1.JobFailed, "BackoffLimitExceeded")
	Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
		g.Expect(job.Annotations).To(HaveKey("etcd-druid.extensions.gardener.cloud/recorded"))
	}).Should(Succeed())
}

var exited = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
	Name: "compact-backup", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no base snapshot found"}},
}}}

func disrupted(reason string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}}
}

// waitForSnapshotTask waits for the EtcdOpsTask that takes a full snapshot instead of the compaction.
func (c *cluster) waitForSnapshotTask() *druidv1alpha1.EtcdOpsTask {
	GinkgoHelper()
	task := &druidv1alpha1.EtcdOpsTask{}
	Eventually(func() error {
		return env.Client.Get(ctx, client.ObjectKey{Namespace: c.etcd.Namespace, Name: "test-compaction-1000"}, task)
	}).Should(Succeed())

	return task
}

// setTaskState simulates the EtcdOpsTask controller.
func (c *cluster) setTaskState(task *druidv1alpha1.EtcdOpsTask, state druidv1alpha1.TaskState, errs ...druidv1alpha1.LastError) {
	GinkgoHelper()
	task.Status.State, task.Status.LastErrors = &state, errs
	Expect(env.Client.Status().Update(ctx, task)).To(Succeed())
}

// condition returns status, reason and message of the condition LastSnapshotCompactionSucceeded.
func (c *cluster) condition(g Gomega) (string, string, string) {
	etcd := &druidv1alpha1.Etcd{}
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(c.etcd), etcd)).To(Succeed())
	for _, condition := range etcd.Status.Conditions {
		if condition.Type == "LastSnapshotCompactionSucceeded" {
			return string(condition.Status), condition.Reason, condition.Message
		}
	}

	return "", "", ""
}

// metric returns the value of the metric with these labels and the labels of the Etcd, in any order. It returns -1 if there is none.
func (c *cluster) metric(name string, labels ...string) float64 {
	GinkgoHelper()

	return environment.Metric(name, append(labels, "etcd_namespace="+c.etcd.Namespace, "etcd=test")...)
}

// metrics returns the names of all compaction metrics of the Etcd.
func (c *cluster) metrics() []string {
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "etcddruid_compaction") {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if pair.GetName() == "etcd_namespace" && pair.GetValue() == c.etcd.Namespace {
					names = append(names, family.GetName())
				}
			}
		}
	}

	return names
}
