// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package protection_test

import (
	"context"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/chartrenderer"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	apinames "k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/charts"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// showsData is the beginning of every rejection message.
const showsData = "this shows data of "

// inspector is a user in the namespace of the test.
type inspector struct {
	client.Client
	kubernetes.Interface

	namespace string
}

// newInspector creates a user with all permissions for tasks, Jobs and pods of all namespaces. It has the verb inspect for the Etcds and the
// EtcdCopyBackupsTasks with these names.
func newInspector(ctx context.Context, namespace, name string, inspected ...string) inspector {
	GinkgoHelper()
	user, err := env.AddUser(envtest.User{Name: name, Groups: []string{"system:authenticated"}}, nil)
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"druid.gardener.cloud"}, Resources: []string{"etcdopstasks"}, Verbs: []string{"*"}},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/ephemeralcontainers"}, Verbs: []string{"*"}},
	}}
	if len(inspected) > 0 {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"druid.gardener.cloud"}, Resources: []string{"etcds", "etcdcopybackupstasks"}, ResourceNames: inspected, Verbs: []string{"inspect"}})
	}
	Expect(env.Client.Create(ctx, role)).To(Succeed())
	Expect(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	})).To(Succeed())
	c, err := client.New(user.Config(), client.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	clientset, err := kubernetes.NewForConfig(user.Config())
	Expect(err).NotTo(HaveOccurred())

	return inspector{Client: c, Interface: clientset, namespace: namespace}
}

// connect requests a subresource of a pod that has no node. The API server rejects the request after its admission.
func (i inspector) connect(ctx context.Context, pod, subresource string) error {
	request := i.CoreV1().RESTClient().Post().Namespace(i.namespace).Resource("pods").Name(pod).SubResource(subresource)
	switch subresource {
	case "exec":
		request = request.VersionedParams(&corev1.PodExecOptions{Command: []string{"/etcd-helper"}, Stdout: true}, scheme.ParameterCodec)
	case "attach":
		request = request.VersionedParams(&corev1.PodAttachOptions{Stdout: true}, scheme.ParameterCodec)
	}

	return request.Do(ctx).Error()
}

// debug adds an ephemeral container to the pod, as a dry run.
func (i inspector) debug(ctx context.Context, pod string) error {
	patch := `{"spec":{"ephemeralContainers":[{"name":"debug","image":"debug","targetContainerName":"inspect"}]}}`
	_, err := i.CoreV1().Pods(i.namespace).Patch(ctx, pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{"All"}}, "ephemeralcontainers")

	return err
}

// createPod creates a pod with a container.
func createPod(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(env.Client.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "inspect", Image: "i"}}},
	})).To(Succeed())
}

// task returns an EtcdOpsTask of the Etcd.
func (i inspector) task(etcd string, change func(*druidv1alpha1.EtcdOpsTask)) *druidv1alpha1.EtcdOpsTask {
	task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, GenerateName: "task-"}}
	task.Spec.EtcdName = &etcd
	change(task)

	return task
}

func (i inspector) job(component string) *batchv1.Job {
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "inspect", Image: "i"}}}

	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, GenerateName: "job-", Labels: map[string]string{"app.kubernetes.io/component": component, "app.kubernetes.io/part-of": "main"}},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}},
	}
}

// Changes of an EtcdOpsTask.
func inspecting(task *druidv1alpha1.EtcdOpsTask) {
	task.Spec.Config.BackupInspection = &druidv1alpha1.BackupInspectionConfig{Point: druidv1alpha1.BackupPoint{Revision: new(int64(1))}}
}

func snapshotting(task *druidv1alpha1.EtcdOpsTask) {
	task.Spec.Config.OnDemandSnapshot = &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeDelta}
}

func annotated(task *druidv1alpha1.EtcdOpsTask) {
	snapshotting(task)
	task.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/task-kind": "backup-inspection", "etcd-druid.extensions.gardener.cloud/backup-inspection": `{"point":{"revision":1}}`}
}

// inspectionPolicies returns the admission policies of the chart with these values.
func inspectionPolicies(values map[string]any) (policies []*unstructured.Unstructured) {
	GinkgoHelper()
	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.35.0"}).RenderEmbeddedFS(charts.Operator, charts.Path, "release", operators, values)
	Expect(err).NotTo(HaveOccurred())
	for _, manifest := range rendered.Manifests {
		for document := range strings.SplitSeq("\n"+manifest.Content, "\n---\n") {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
			if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") && strings.Contains(object.GetName(), "-inspection") {
				policies = append(policies, object)
			}
		}
	}

	return policies
}

var _ = Describe("An inspection of the backup store", Ordered, func() {
	const longest = "an-etcd-whose-name-has-the-largest-number-of-letters" // 52, so that the API server shortens the names of pods
	var (
		stranger, ofMain, ofLongest inspector
		space                       string
	)
	rejected := func(etcd string) OmegaMatcher {
		return MatchError(ContainSubstring(showsData + "the backup store of Etcd " + space + "/" + etcd + ","))
	}
	admitted := func() OmegaMatcher { return MatchError(ContainSubstring("does not have a host assigned")) }

	BeforeAll(func(ctx SpecContext) {
		space = env.Namespace(ctx, "inspected")
		for _, name := range []string{"main-insp-abcde", "other-insp-abcde", longest + "-insp-abcde", "main-0"} {
			createPod(ctx, space, name)
		}
		stranger, ofMain, ofLongest = newInspector(ctx, space, "stranger"), newInspector(ctx, space, "inspector", "main"), newInspector(ctx, space, "other-inspector", longest)
		policies := inspectionPolicies(nil)
		Expect(policies).To(HaveLen(8))
		for _, policy := range policies {
			Expect(env.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(policy), client.ForceOwnership, client.FieldOwner("helm"))).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(env.Client.Delete(ctx, policy))).To(Succeed()) })
		}
		// The API server applies each policy at a different time.
		Eventually(func() error { return stranger.Client.Create(ctx, stranger.task("main", inspecting), client.DryRunAll) }).Should(rejected("main"))
		Eventually(stranger.connect).WithArguments(ctx, "main-insp-abcde", "exec").Should(rejected("main"))
	})

	It("is requested only by users with the verb inspect for its Etcd", func(ctx SpecContext) {
		for _, change := range []func(*druidv1alpha1.EtcdOpsTask){inspecting, annotated} {
			Expect(stranger.Client.Create(ctx, stranger.task("main", change))).To(rejected("main"))
			Expect(ofMain.Client.Create(ctx, ofMain.task("other", change))).To(rejected("other"))
			Expect(ofMain.Client.Create(ctx, ofMain.task("main", change))).To(Succeed())
			Expect(env.Client.Create(ctx, ofMain.task("other", change))).To(Succeed(), "an administrator has all verbs")
		}
		Expect(stranger.Client.Create(ctx, stranger.task("main", snapshotting))).To(Succeed(), "other tasks need no verb")
	})

	It("is not requested by a change of another task", func(ctx SpecContext) {
		task := stranger.task("main", snapshotting)
		Expect(stranger.Client.Create(ctx, task)).To(Succeed())
		change := task.DeepCopy()
		annotated(change)
		Expect(stranger.Client.Patch(ctx, change.DeepCopy(), client.MergeFrom(task))).To(rejected("main"))
		Expect(ofMain.Client.Patch(ctx, change.DeepCopy(), client.MergeFrom(task))).To(Succeed())

		By("changing the revision of an inspection")
		Expect(stranger.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		change = task.DeepCopy()
		change.Annotations["etcd-druid.extensions.gardener.cloud/backup-inspection"] = `{"point":{"revision":2}}`
		Expect(stranger.Client.Patch(ctx, change, client.MergeFrom(task))).To(rejected("main"))

		By("changing something else")
		change = task.DeepCopy()
		change.Labels, change.Finalizers = map[string]string{"a": "b"}, []string{"example.com/finalizer"}
		Expect(stranger.Client.Patch(ctx, change.DeepCopy(), client.MergeFrom(task))).To(Succeed())
		Expect(stranger.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		change = task.DeepCopy()
		change.Finalizers = nil
		Expect(stranger.Client.Patch(ctx, change, client.MergeFrom(task))).To(Succeed())
		Expect(stranger.Client.Delete(ctx, task)).To(Succeed())
	})

	It("runs in a Job that only users with the verb inspect create", func(ctx SpecContext) {
		Expect(stranger.Client.Create(ctx, stranger.job("etcd-backup-inspection-job"))).To(rejected("main"))
		Expect(ofMain.Client.Create(ctx, ofMain.job("etcd-backup-inspection-job"))).To(Succeed())
		Expect(stranger.Client.Create(ctx, stranger.job("etcd-restore-drill-job"))).To(Succeed())
	})

	DescribeTable("is read only by users with the verb inspect for its Etcd", func(ctx SpecContext, request func(context.Context, inspector, string) error, admitted OmegaMatcher) {
		Expect(request(ctx, stranger, "main-insp-abcde")).To(rejected("main"))
		Expect(request(ctx, ofMain, "other-insp-abcde")).To(rejected("other"))
		Expect(request(ctx, ofMain, longest+"-insp-abcde")).To(rejected(longest))
		Expect(request(ctx, ofMain, "main-insp-abcde")).To(admitted)
		Expect(request(ctx, ofLongest, longest+"-insp-abcde")).To(admitted)

		By("reading other pods")
		Expect(request(ctx, stranger, "main-0")).To(admitted)
	},
		Entry("with exec", func(ctx context.Context, i inspector, pod string) error { return i.connect(ctx, pod, "exec") }, admitted()),
		Entry("with attach", func(ctx context.Context, i inspector, pod string) error { return i.connect(ctx, pod, "attach") }, admitted()),
		Entry("with port-forward", func(ctx context.Context, i inspector, pod string) error { return i.connect(ctx, pod, "portforward") }, admitted()),
		Entry("with debug", func(ctx context.Context, i inspector, pod string) error { return i.debug(ctx, pod) }, Succeed()),
	)

	Describe("whose data the pods of other Jobs have", func() {
		// names are those of Etcds and EtcdCopyBackupsTasks. Kubernetes shortens the names of the pods if they are long.
		names := []string{"main"}
		for length := 47; length <= 56; length++ {
			names = append(names, strings.Repeat("x", length))
		}
		jobOf := func(name func(*druidv1alpha1.Etcd) string) func(string) string {
			return func(etcd string) string { return name(&druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: etcd}}) }
		}
		inspectionOf := func(ordinal int) func(string) string {
			return jobOf(func(etcd *druidv1alpha1.Etcd) string { return helper.InspectionJobName(etcd, ordinal) })
		}
		jobOfTask := func(task string) string {
			return helper.CopyBackupsJobName(&druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Name: task}})
		}

		BeforeAll(func(ctx SpecContext) {
			for _, name := range names {
				etcd := fixture.Etcd(fixture.WithNamespace(space), fixture.WithName(name))
				etcd.UID, etcd.Generation = "", 0
				Expect(env.Client.Create(ctx, etcd)).To(Succeed())
				Expect(env.Client.Create(ctx, &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}})).To(Succeed())
			}
		})

		// longest is the length of the longest name that an owner of such a Job can have.
		DescribeTable("is read only by users with the verb inspect for their owner", func(ctx SpecContext, kind string, longest int, job func(owner string) string) {
			rejected := func(owner string) OmegaMatcher {
				return MatchError(ContainSubstring(showsData + kind + " " + space + "/" + owner + ","))
			}
			for _, name := range names {
				if len(name) > longest {
					continue
				}
				pod := apinames.SimpleNameGenerator.GenerateName(job(name) + "-")
				createPod(ctx, space, pod)
				// The API server reads new objects later, and discovers their CustomResourceDefinition within half a minute.
				Eventually(stranger.connect).WithArguments(ctx, pod, "exec").Should(rejected(name))
				Expect(stranger.connect(ctx, pod, "attach")).To(rejected(name))
				Expect(stranger.connect(ctx, pod, "portforward")).To(rejected(name))
				Expect(stranger.debug(ctx, pod)).To(rejected(name))
				if name == "main" {
					Expect(ofMain.connect(ctx, pod, "exec")).To(admitted())
					Expect(ofMain.debug(ctx, pod)).To(Succeed())
				} else {
					Expect(ofMain.connect(ctx, pod, "exec")).To(rejected(name))
				}
			}
		},
			Entry("the Job that compacts snapshots", "Etcd", 53, jobOf(helper.CompactionJobName)),
			Entry("the Job that verifies a restore", "Etcd", 52, jobOf(helper.RestoreVerificationJobName)),
			Entry("the Job of a restore drill", "Etcd", 52, jobOf(helper.RestoreDrillJobName)),
			Entry("the Job of a recovery", "Etcd", 52, jobOf(helper.RecoveryJobName)),
			Entry("the Job that inspects a volume", "Etcd", 52, inspectionOf(0)),
			Entry("the Job that inspects a volume with a longer ordinal", "Etcd", 52, inspectionOf(helper.MaxMembers-1)),
			Entry("the Job that copies snapshots", "EtcdCopyBackupsTask", 56, jobOfTask),
		)

		DescribeTable("needs no verb for other pods", func(ctx SpecContext, pod string) {
			createPod(ctx, space, pod)
			Consistently(stranger.connect).WithArguments(ctx, pod, "exec").WithTimeout(time.Second).Should(admitted())
			Expect(stranger.debug(ctx, pod)).To(Succeed())
		},
			Entry("of members", "main-1"),
			Entry("of members of an Etcd with a long name", strings.Repeat("x", 52)+"-0"),
			Entry("without an Etcd of this name", "other-verify-abcde"),
			Entry("without an EtcdCopyBackupsTask of this name", "other-worker-abcde"),
			Entry("of a Deployment with a similar name", "main-verify-5d8f9c7b6d-abcde"),
			Entry("with more characters after the name of a Job", "main-drill-abcdef"),
			Entry("with the name of a Job that Kubernetes would not shorten", "main-compaction"),
			Entry("of a StatefulSet with the name of a Job", "main-recover-0"),
		)
	})

	It("needs no verb if the chart value disables the policies", func() {
		Expect(inspectionPolicies(map[string]any{"inspectionPolicy": map[string]any{"enabled": false}})).To(BeEmpty())
	})
})
