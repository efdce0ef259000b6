// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// TestNamespace is the ground of one story: a namespace of its own.
type TestNamespace struct {
	*Framework
	// Name is the name of the namespace.
	Name string
}

// NewNamespace makes the namespace. At the end of a story that went well everything in it is deleted; where it failed, what a person
// would look at is printed, and the namespace stays for that person.
func (f *Framework) NewNamespace(ctx context.Context, name string) *TestNamespace {
	GinkgoHelper()

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-" + name + "-"}}
	Expect(f.Client.Create(ctx, namespace)).To(Succeed())

	ns := &TestNamespace{Framework: f, Name: namespace.Name}
	DeferCleanup(ns.cleanUp)

	return ns
}

func (ns *TestNamespace) cleanUp(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		ns.Report(ctx)
		_, _ = fmt.Fprintf(GinkgoWriter, "\nThe namespace %s is left as it is.\n", ns.Name)

		return
	}

	etcds := ns.listEtcds(ctx)
	for i := range etcds {
		Expect(client.IgnoreNotFound(ns.Client.Delete(ctx, &etcds[i]))).To(Succeed())
	}

	Eventually(ns.listEtcds).WithContext(ctx).WithTimeout(ReadyTimeout).WithPolling(PollInterval).Should(BeEmpty(), ns.State)
	Expect(client.IgnoreNotFound(ns.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}))).To(Succeed())
	Expect(os.RemoveAll(ns.StoreDir())).To(Succeed())
}

func (ns *TestNamespace) listEtcds(ctx context.Context) []druidv1alpha1.Etcd {
	GinkgoHelper()

	etcds := &druidv1alpha1.EtcdList{}
	Expect(ns.Client.List(ctx, etcds, client.InNamespace(ns.Name))).To(Succeed())

	return etcds.Items
}

// StoreDir is the folder with the snapshots of stores whose container is named after the story's namespace.
func (ns *TestNamespace) StoreDir() string { return filepath.Join(ns.LocalStore, ns.Name) }

// Create creates objects in the namespace of the story.
func (ns *TestNamespace) Create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()

	for _, object := range objects {
		object.SetNamespace(ns.Name)
		Expect(ns.Client.Create(ctx, object)).To(Succeed())
	}
}

// Patch reads the object anew and patches what change does to it.
func (ns *TestNamespace) Patch(ctx context.Context, etcd *druidv1alpha1.Etcd, mutate func(*druidv1alpha1.Etcd)) {
	GinkgoHelper()
	Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())

	before := etcd.DeepCopy()
	mutate(etcd)
	Expect(ns.Client.Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
}

// Eventually waits until look finds no fault with the Etcd, which is read anew each time. On failure it says in which state the
// story is.
func (ns *TestNamespace) Eventually(ctx context.Context, etcd *druidv1alpha1.Etcd, check func(Gomega)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		check(g)
	}).WithContext(ctx).WithTimeout(ReadyTimeout).WithPolling(PollInterval).Should(Succeed(), ns.State)
}

// EventuallyReady waits until the Etcd is all that its newest generation asks for, and serves.
func (ns *TestNamespace) EventuallyReady(ctx context.Context, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) { g.Expect(CheckReady(etcd)).To(Succeed()) })
}

// EventuallyReplaced waits until a ready pod has taken the place of this one, and until the Etcd is ready with it.
func (ns *TestNamespace) EventuallyReplaced(ctx context.Context, etcd *druidv1alpha1.Etcd, previous *corev1.Pod) *corev1.Pod {
	GinkgoHelper()

	pod := &corev1.Pod{}

	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(previous), pod)).To(Succeed())
		g.Expect(pod.UID).NotTo(Equal(previous.UID), "pod "+pod.Name+" is still the former one")
		g.Expect(IsPodReady(pod)).To(BeTrue(), "pod "+pod.Name+" is not ready")
	})
	ns.EventuallyReady(ctx, etcd)

	return pod
}

// Pod is the pod of the Etcd's first member, which must exist.
func (ns *TestNamespace) Pod(ctx context.Context, etcd *druidv1alpha1.Etcd) *corev1.Pod {
	GinkgoHelper()

	pod := &corev1.Pod{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: etcd.Name + "-0"}, pod)).To(Succeed())

	return pod
}

// FindPod is the pod of the Etcd's first member, and false where there is none or nobody can tell.
func (ns *TestNamespace) FindPod(ctx context.Context, etcd *druidv1alpha1.Etcd) (*corev1.Pod, bool) {
	pod := &corev1.Pod{}
	err := ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: etcd.Name + "-0"}, pod)

	return pod, err == nil
}

// Kill deletes a pod and gives its processes a second to end.
func (ns *TestNamespace) Kill(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(ns.Client.Delete(ctx, pod, client.GracePeriodSeconds(1), client.Preconditions{UID: &pod.UID})).To(Succeed())
}

// ContainerLog is what a container of the pod has written since it was started last.
func (ns *TestNamespace) ContainerLog(ctx context.Context, pod *corev1.Pod, container string) string {
	GinkgoHelper()

	content, err := ns.Clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())

	return string(content)
}

// Claim is the volume claim of the Etcd's first member, which must exist.
func (ns *TestNamespace) Claim(ctx context.Context, etcd *druidv1alpha1.Etcd) *corev1.PersistentVolumeClaim {
	GinkgoHelper()

	claim := &corev1.PersistentVolumeClaim{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: etcd.Name + "-" + etcd.Name + "-0"}, claim)).To(Succeed())

	return claim
}

// VolumeDir is the folder on the node that is the data volume of the Etcd's first member.
func (ns *TestNamespace) VolumeDir(ctx context.Context, etcd *druidv1alpha1.Etcd) string {
	GinkgoHelper()

	return ns.volumePath(ctx, ns.Claim(ctx, etcd))
}

// VolumeDirs are the folders on the nodes that are the data volumes of all members.
func (ns *TestNamespace) VolumeDirs(ctx context.Context, etcd *druidv1alpha1.Etcd) []string {
	GinkgoHelper()

	claims := &corev1.PersistentVolumeClaimList{}
	Expect(ns.Client.List(ctx, claims, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/part-of": etcd.Name})).To(Succeed())

	var dirs []string
	for i := range claims.Items {
		dirs = append(dirs, ns.volumePath(ctx, &claims.Items[i]))
	}

	return dirs
}

func (ns *TestNamespace) volumePath(ctx context.Context, claim *corev1.PersistentVolumeClaim) string {
	GinkgoHelper()

	volume := &corev1.PersistentVolume{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)).To(Succeed())
	Expect(volume.Spec.HostPath).NotTo(BeNil(), "volumes of the local seed are folders")

	return volume.Spec.HostPath.Path
}

// IsGone says whether the object does not exist any more.
func (ns *TestNamespace) IsGone(ctx context.Context, object client.Object) bool {
	GinkgoHelper()

	err := ns.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
	Expect(client.IgnoreNotFound(err)).To(Succeed())

	return apierrors.IsNotFound(err)
}

// CheckReady says what is missing until the Etcd is all that its newest generation asks for, and serves.
func CheckReady(etcd *druidv1alpha1.Etcd) error {
	status := etcd.Status
	switch observed := ptr.Deref(status.ObservedGeneration, 0); {
	case observed != etcd.Generation:
		return fmt.Errorf("status.observedGeneration is %d, and the newest generation is %d", observed, etcd.Generation)
	case len(status.LastErrors) > 0:
		return fmt.Errorf("status.lastErrors has %s: %s", status.LastErrors[0].Code, status.LastErrors[0].Description)
	case status.LastOperation == nil || status.LastOperation.State != "Succeeded":
		return fmt.Errorf("status.lastOperation is not Succeeded")
	case !ptr.Deref(status.Ready, false):
		return fmt.Errorf("status.ready is not true")
	}

	for _, conditionType := range []druidv1alpha1.ConditionType{"Ready", "AllMembersReady", "AllMembersUpdated"} {
		if condition := Condition(etcd, conditionType); condition.Status != "True" {
			return fmt.Errorf("condition %s is %q: %s", conditionType, condition.Status, condition.Message)
		}
	}

	return nil
}

// Condition returns the condition of the type, an empty one if there is none.
func Condition(etcd *druidv1alpha1.Etcd, conditionType druidv1alpha1.ConditionType) druidv1alpha1.Condition {
	for _, condition := range etcd.Status.Conditions {
		if condition.Type == conditionType {
			return condition
		}
	}

	return druidv1alpha1.Condition{Type: conditionType}
}

// IsPodReady says whether the pod is ready and not on its way out.
func IsPodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}

	return false
}
