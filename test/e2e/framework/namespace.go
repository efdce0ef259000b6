// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// TestNamespace is the namespace of one test.
type TestNamespace struct {
	*Framework
	// Name is the name of the namespace.
	Name string
}

// NewNamespace creates a namespace for the running test. If the test succeeds, the cleanup deletes the namespace and
// everything in it. If the test fails, the cleanup prints a report, and requests the deletion of the namespace without waiting for it. The pods
// of failed tests would otherwise slow down the other tests until these fail, too. With FOCUS, it keeps the namespace.
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

		if os.Getenv("FOCUS") != "" {
			_, _ = fmt.Fprintf(GinkgoWriter, "\nThe namespace %s is not deleted.\n", ns.Name)
			return
		}

		for _, etcd := range ns.listEtcds(ctx) {
			ns.DeleteWithoutSnapshot(ctx, &etcd)
		}

		Expect(ns.deleteNamespace(ctx)).To(Succeed())

		return
	}

	etcds := ns.listEtcds(ctx)
	for i := range etcds {
		Expect(ns.Delete(ctx, &etcds[i])).To(Succeed())
	}

	Eventually(ns.listEtcds).WithContext(ctx).WithTimeout(ReadyTimeout).WithPolling(PollInterval).Should(BeEmpty(), ns.State)
	Expect(ns.remaining(ctx)).To(BeEmpty(), "an Etcd is deleted after its objects")
	Expect(ns.deleteNamespace(ctx)).To(Succeed())

	if ns.Capabilities.Seed {
		Expect(os.RemoveAll(filepath.Join(ns.LocalStore, ns.Name))).To(Succeed())
	}
}

// remaining returns the kinds and names of the ManagedResources, payload Secrets and Leases of Etcds in the namespace.
func (ns *TestNamespace) remaining(ctx context.Context) []string {
	GinkgoHelper()

	var found []string

	for list, labels := range map[client.ObjectList]client.MatchingLabels{
		&resourcesv1alpha1.ManagedResourceList{}: {"origin": druidv1alpha1.ManagedResourceOrigin},
		&corev1.SecretList{}:                     {"origin": druidv1alpha1.ManagedResourceOrigin},
		&coordinationv1.LeaseList{}:              {druidv1alpha1.LabelManagedByKey: druidv1alpha1.LabelManagedByValue},
	} {
		Expect(ns.Client.List(ctx, list, client.InNamespace(ns.Name), labels)).To(Succeed())
		Expect(meta.EachListItem(list, func(object runtime.Object) error {
			found = append(found, fmt.Sprintf("%T %s", object, object.(client.Object).GetName()))

			return nil
		})).To(Succeed())
	}

	return found
}

// DeleteWithoutSnapshot requests the deletion of the Etcd of a failed test, which needs no final snapshot.
func (ns *TestNamespace) DeleteWithoutSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()

	before := etcd.DeepCopy()
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation, "")
	Expect(client.IgnoreNotFound(ns.Client.Patch(ctx, etcd, client.MergeFrom(before)))).To(Succeed())
	Expect(ns.Delete(ctx, etcd)).To(Succeed())
}

func (ns *TestNamespace) deleteNamespace(ctx context.Context) error {
	return client.IgnoreNotFound(ns.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}))
}

func (ns *TestNamespace) listEtcds(ctx context.Context) []druidv1alpha1.Etcd {
	GinkgoHelper()

	etcds := &druidv1alpha1.EtcdList{}
	Expect(ns.Client.List(ctx, etcds, client.InNamespace(ns.Name))).To(Succeed())

	return etcds.Items
}

// StoreDir returns the directory of the snapshots in stores whose container has the name of the namespace.
func (ns *TestNamespace) StoreDir() string {
	GinkgoHelper()
	requireSeed()

	return filepath.Join(ns.LocalStore, ns.Name)
}

// Create creates the objects in the namespace. An Etcd without a version of etcd gets the version that the user of the tests selected.
func (ns *TestNamespace) Create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()

	for _, object := range objects {
		object.SetNamespace(ns.Name)
		if etcd, is := object.(*druidv1alpha1.Etcd); is && etcd.Spec.Etcd.Version == nil && IsEtcdVersionSet() {
			etcd.Spec.Etcd.Version = new(EtcdVersion())
		}
		Expect(ns.Client.Create(ctx, object)).To(Succeed())
	}
}

// Patch reads the Etcd again and patches what mutate changes.
func (ns *TestNamespace) Patch(ctx context.Context, etcd *druidv1alpha1.Etcd, mutate func(*druidv1alpha1.Etcd)) {
	GinkgoHelper()
	Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())

	before := etcd.DeepCopy()
	mutate(etcd)
	Expect(ns.Client.Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
}

// Eventually reads the Etcd and calls check until check succeeds. On failure it prints the state of the namespace.
func (ns *TestNamespace) Eventually(ctx context.Context, etcd *druidv1alpha1.Etcd, check func(Gomega)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		check(g)
	}).WithContext(ctx).WithTimeout(ReadyTimeout).WithPolling(PollInterval).Should(Succeed(), ns.State)
}

// EventuallyReady waits until the newest generation of the Etcd is applied and the cluster is healthy.
func (ns *TestNamespace) EventuallyReady(ctx context.Context, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) { g.Expect(CheckReady(etcd)).To(Succeed()) })
	recordSetUp()
}

// recordSetUp marks the end of the set-up of the running spec in the report, at its first call. hack/testrun reads the entry.
func recordSetUp() {
	const name = "set-up"
	if !slices.ContainsFunc(CurrentSpecReport().ReportEntries, func(entry types.ReportEntry) bool { return entry.Name == name }) {
		AddReportEntry(name, ReportEntryVisibilityNever)
	}
}

// EventuallyReplaced waits until a ready pod has replaced the previous pod and the Etcd is ready. It returns the new
// pod.
func (ns *TestNamespace) EventuallyReplaced(ctx context.Context, etcd *druidv1alpha1.Etcd, previous *corev1.Pod) *corev1.Pod {
	GinkgoHelper()

	pod := &corev1.Pod{}

	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(previous), pod)).To(Succeed())
		g.Expect(pod.UID).NotTo(Equal(previous.UID), "pod "+pod.Name+" was not replaced")
		g.Expect(IsPodReady(pod)).To(BeTrue(), "pod "+pod.Name+" is not ready")
	})
	ns.EventuallyReady(ctx, etcd)

	return pod
}

// Pod returns the pod of the Etcd's first member, which must exist.
func (ns *TestNamespace) Pod(ctx context.Context, etcd *druidv1alpha1.Etcd) *corev1.Pod {
	GinkgoHelper()

	pod := &corev1.Pod{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: etcd.Name + "-0"}, pod)).To(Succeed())

	return pod
}

// FindPod returns the pod of the Etcd's first member. It returns false if the pod does not exist or cannot be read.
func (ns *TestNamespace) FindPod(ctx context.Context, etcd *druidv1alpha1.Etcd) (*corev1.Pod, bool) {
	pod := &corev1.Pod{}
	err := ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: etcd.Name + "-0"}, pod)

	return pod, err == nil
}

// Kill deletes the pod with a grace period of one second.
func (ns *TestNamespace) Kill(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(ns.Client.Delete(ctx, pod, client.GracePeriodSeconds(1), client.Preconditions{UID: &pod.UID})).To(Succeed())
}

// ContainerLog returns the log of the container since its last start.
func (ns *TestNamespace) ContainerLog(ctx context.Context, pod *corev1.Pod, container string) string {
	GinkgoHelper()

	content, err := ns.Clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())

	return string(content)
}

// Claim returns the PersistentVolumeClaim of the Etcd's first member, which must exist.
func (ns *TestNamespace) Claim(ctx context.Context, etcd *druidv1alpha1.Etcd) *corev1.PersistentVolumeClaim {
	GinkgoHelper()

	claim := &corev1.PersistentVolumeClaim{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: etcd.Name + "-" + etcd.Name + "-0"}, claim)).To(Succeed())

	return claim
}

// VolumeDir returns the directory on the node that is the data volume of the Etcd's first member.
func (ns *TestNamespace) VolumeDir(ctx context.Context, etcd *druidv1alpha1.Etcd) string {
	GinkgoHelper()

	return ns.volumePath(ctx, ns.Claim(ctx, etcd))
}

// VolumeDirs returns the directories on the nodes that are the data volumes of all members.
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
	requireSeed()

	volume := &corev1.PersistentVolume{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)).To(Succeed())
	Expect(volume.Spec.HostPath).NotTo(BeNil(), "volumes of the local seed are directories")

	return volume.Spec.HostPath.Path
}

// IsGone returns whether the object does not exist.
func (ns *TestNamespace) IsGone(ctx context.Context, object client.Object) bool {
	GinkgoHelper()

	err := ns.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
	Expect(client.IgnoreNotFound(err)).To(Succeed())

	return apierrors.IsNotFound(err)
}

// CheckReady returns an error that says why the Etcd is not ready. It returns nil if the newest generation is applied
// and the cluster is healthy.
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

// Condition returns the condition of the type, or a condition without a status if the Etcd has none.
func Condition(etcd *druidv1alpha1.Etcd, conditionType druidv1alpha1.ConditionType) druidv1alpha1.Condition {
	for _, condition := range etcd.Status.Conditions {
		if condition.Type == conditionType {
			return condition
		}
	}

	return druidv1alpha1.Condition{Type: conditionType}
}

// IsPodReady returns whether the pod is ready and not terminating.
func IsPodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}

	return false
}
