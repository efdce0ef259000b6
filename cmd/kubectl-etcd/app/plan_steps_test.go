// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// wrapperImage is the image of the container etcd.
const wrapperImage = "registry.example.com/etcd-wrapper:v1"

// planCase is a manifest for a cluster of one member. The real operator has rolled out the manifest before it.
type planCase struct {
	// created changes the Etcd before it is created. Nil: no change.
	created func(*druidv1alpha1.Etcd)
	// given changes the cluster before the plan. Nil: no change.
	given func(*kube.Cluster)
	// changed makes the manifest to be planned from the stored one. Nil: no change.
	changed func(*druidv1alpha1.Etcd)
	// steps are matchers of the paragraphs that the command prints.
	steps []any
}

var _ = Describe("plan for a cluster that the operator has created", func() {
	const (
		done      = "1 of 1 healthy, and the member runs the latest rendered manifests"
		recreated = "recreate StatefulSet main, its pods keep running"
	)
	var (
		withStore = func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("bucket"), Prefix: "snapshots"}
		}
		withClass = func(name string) func(*druidv1alpha1.Etcd) {
			return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = &name }
		}
		withVersion = func(version string) func(*druidv1alpha1.Etcd) {
			return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Version = &version }
		}
		withSurge = func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategySurge) }
		hibernate = func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 }
		expand    = func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi")) }
		annotate  = func(key, value string) func(*druidv1alpha1.Etcd) {
			return func(etcd *druidv1alpha1.Etcd) { metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, key, value) }
		}
	)

	DescribeTable("lists each step of the operator", func(ctx SpecContext, c planCase) {
		k := clusterWith(c.created)
		if c.given != nil {
			c.given(k)
		}
		Expect(planOf(ctx, k, c.changed)).To(HaveExactElements(c.steps...))
	},
		Entry("for an unchanged manifest: none", planCase{steps: []any{"nothing: " + done}}),
		Entry("for another label", planCase{
			changed: func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["role"] = "other" },
			steps: []any{
				And(step("delete pod main-0", "which a single member cannot avoid"), HaveSuffix("Voting members: 1 of 1 healthy, quorum 1, tolerance 0 -> 0 of 1 healthy, no quorum. Time without a write: 16s")),
				"end: " + done,
			},
		}),
		Entry("for another label with the update strategy Surge: the temporary second member, with the quorum calculation", planCase{
			created: withSurge,
			changed: func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["role"] = "other" },
			steps:   surgeSteps("its pod template has changed"),
		}),
		Entry("for another label, if Surge is the default of the operator", planCase{
			given: func(k *kube.Cluster) {
				managedResource, c := &resourcesv1alpha1.ManagedResource{}, k.Client(nil)
				Expect(c.Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "druid-main"}, managedResource)).To(Succeed())
				annotations, err := state.Update(managedResource.Annotations, func(s *state.State) { s.DefaultUpdateStrategy = "Surge" })
				Expect(err).NotTo(HaveOccurred())
				managedResource.Annotations = annotations
				Expect(c.Update(context.Background(), managedResource)).To(Succeed())
			},
			changed: func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["role"] = "other" },
			steps:   surgeSteps("its pod template has changed"),
		}),
		Entry("for another label, although the reconciliation is suspended", planCase{
			changed: func(etcd *druidv1alpha1.Etcd) {
				etcd.Spec.Labels["role"] = "other"
				annotate("druid.gardener.cloud/suspend-etcd-spec-reconcile", "")(etcd)
			},
			steps: []any{step("delete pod main-0", "which a single member cannot avoid"), "end: " + done},
		}),
		Entry("for a newer version of etcd: the snapshot, and the replacement", planCase{
			created: withStore,
			changed: withVersion("3.5"),
			steps: []any{
				step("take and verify a full snapshot", "etcd changes from 3.4 to 3.5 after a full snapshot"),
				step("delete pod main-0", "which a single member cannot avoid"), "end: " + done,
			},
		}),
		Entry("for a cluster with etcd 3.5 and an unchanged manifest: none", planCase{created: withVersion("3.5"), steps: []any{"nothing: " + done}}),
		Entry("for a cluster with etcd 3.5 whose version the manifest no longer names: none", planCase{
			created: withVersion("3.5"), changed: func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Version = nil }, steps: []any{"nothing: " + done},
		}),
		Entry("for an older version of etcd: the replacement", planCase{
			created: withVersion("3.5"),
			changed: withVersion("3.4"),
			steps:   []any{step("delete pod main-0", "which a single member cannot avoid"), "end: " + done},
		}),
		Entry("for a hibernation without a store", planCase{
			changed: hibernate,
			steps:   []any{"end: spec.replicas is 0 and no pod runs; the data is kept"},
		}),
		Entry("for a hibernation with a store: the final snapshot", planCase{
			created: withStore,
			changed: hibernate,
			steps: []any{
				step("take and verify a full snapshot", "attempt 1 of 3"),
				HavePrefix("end: spec.replicas is 0 and no pod runs; the data is kept; full snapshot "),
			},
		}),
		Entry("for a hibernation with a store whose final snapshot is skipped: the reason", planCase{
			created: withStore,
			changed: func(etcd *druidv1alpha1.Etcd) {
				hibernate(etcd)
				annotate("druid.gardener.cloud/skip-final-snapshot", "")(etcd)
			},
			steps: []any{
				"end: spec.replicas is 0 and no pod runs; the data is kept; no full snapshot: the annotation druid.gardener.cloud/skip-final-snapshot skips it",
			},
		}),
		Entry("for a larger storageCapacity: the expansion, and the claim template", planCase{
			created: withClass("expandable"),
			changed: expand,
			steps: []any{
				step("expand PersistentVolumeClaim main-main-0", "from 16Gi to 32Gi"),
				step(recreated, "spec.volumeClaimTemplates of StatefulSet main cannot be changed in place"),
				step("request gardener-resource-manager to reconcile ManagedResource druid-main", "the StatefulSet does not exist although it was applied"),
				"end: " + done,
			},
		}),
		Entry("for a larger storageCapacity of a StorageClass without expansions: the refusal", planCase{
			created: withClass("fixed"),
			changed: expand,
			steps: []any{And(
				HavePrefix("refuse: spec.storageCapacity: the volume of claim main-main-0 cannot "), ContainSubstring("from 16Gi to 32Gi"),
				ContainSubstring(`its StorageClass "fixed" does not exist or does not allow it (allowVolumeExpansion)`),
			)},
		}),
		Entry("for a stored quota that the operator has not accepted: the refusal", planCase{
			given: func(k *kube.Cluster) {
				stored := k.EtcdObject().DeepCopy()
				stored.Spec.Etcd.Quota = new(resource.MustParse("512m"))
				Expect(k.Client(nil).Update(context.Background(), stored)).To(Succeed())
			},
			steps: []any{And(HavePrefix("refuse: spec.etcd.quota: "), ContainSubstring("must be at least 16Mi; m is milli"))},
		}),
		Entry("for a manifest that no operator accepts: the refusal", planCase{
			changed: func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Image = new("") },
			steps:   []any{And(HavePrefix("refuse: spec.etcd.image: "), ContainSubstring("name an image"))},
		}),
		Entry("for a restore while a claim has data: the restore verification, and what is deleted", planCase{
			created: withStore,
			given:   breakMember,
			changed: annotate("druid.gardener.cloud/restore", "from-store"),
			steps: []any{
				step("create Job main-verify, which verifies the restore", "claim main-main-0 still has data"),
				step("create a Job that reads the revision in the volume of PersistentVolumeClaim main-main-0", "claim main-main-0 still has data"),
				step("delete Job main-0-inspect, which has verified a restore", "the store restores revision 1 with 0 keys, and the highest known revision is 1"),
				step("set the reclaim policy of PersistentVolume pv-00000000-0000-0000-0000-000000000022 to Retain", "keeps its data until the restored cluster has a full snapshot"),
				step("delete PersistentVolumeClaim main-main-0", "restored from its store"),
				step("reset Lease main-0", "restored from its store"),
				HavePrefix("wait for pod main-0 to be ready: image registry.example.com/etcd-wrapper:v1 of container etcd of pod main-0 cannot be pulled (ImagePullBackOff); correct spec.etcd.image"),
			},
		}),
		Entry("for a restore after a restore verification that has failed: the next verification", planCase{
			created: withStore,
			given: func(k *kube.Cluster) {
				breakMember(k)
				failVerification(k)
			},
			changed: annotate("druid.gardener.cloud/restore", "from-store"),
			steps: []any{
				step("delete Job main-verify, which has verified a restore", "claim main-main-0 still has data"),
				step("create Job main-verify, which verifies the restore", "claim main-main-0 still has data"),
				step("create a Job that reads the revision in the volume of PersistentVolumeClaim main-main-0", "claim main-main-0 still has data"),
				step("delete Job main-0-inspect, which has verified a restore", "the store restores revision 1 with 0 keys, and the highest known revision is 1"),
				step("set the reclaim policy of PersistentVolume pv-00000000-0000-0000-0000-000000000022 to Retain", "keeps its data until the restored cluster has a full snapshot"),
				step("delete PersistentVolumeClaim main-main-0", "restored from its store"),
				step("reset Lease main-0", "restored from its store"),
				HavePrefix("wait for pod main-0 to be ready: image registry.example.com/etcd-wrapper:v1 of container etcd of pod main-0 cannot be pulled (ImagePullBackOff); correct spec.etcd.image"),
			},
		}),
		Entry("for a restore without a restore verification: what is deleted", planCase{
			created: withStore,
			given:   breakMember,
			changed: annotate("druid.gardener.cloud/restore", "from-store-unverified"),
			steps: []any{
				step("set the reclaim policy of PersistentVolume pv-00000000-0000-0000-0000-000000000022 to Retain", "keeps its data until the restored cluster has a full snapshot"),
				step("delete PersistentVolumeClaim main-main-0", "restored from its store"),
				step("reset Lease main-0", "restored from its store"),
				step("reset Lease main-full-snap", "which the store may not have any more"),
				step("reset Lease main-delta-snap", "which the store may not have any more"),
				HavePrefix("wait for pod main-0 to be ready: image registry.example.com/etcd-wrapper:v1 of container etcd of pod main-0 cannot be pulled (ImagePullBackOff); correct spec.etcd.image"),
			},
		}),
	)
})

// surgeSteps are the paragraphs of a surge with this cause.
func surgeSteps(cause string) []any {
	const (
		one, two    = "1 of 1 healthy, quorum 1, tolerance 0", "2 of 2 healthy, quorum 2, tolerance 0"
		leaderMoves = "Voting members: " + two + ". Time without a write: 200ms"
		joins       = "Voting members: " + one + " -> " + two + ". Time without a write: 200ms"
		leaves      = "Voting members: " + two + " -> " + one + ". Time without a write: 200ms, and 1.2s for a client that is connected to the removed member"
	)

	return []any{
		step("start a temporary second member", cause),
		And(step("promote the learner in pod main-1", "allowed"), HaveSuffix(joins)),
		step("update the configuration in pod main-0", "its sidecar adds no learner"),
		And(step("transfer leadership from the member in pod main-0 to main-1", "after it has transferred the leadership"), HaveSuffix(leaderMoves)),
		And(step("remove member main-0 from etcd", "allowed"), HaveSuffix(leaves)),
		step("delete PersistentVolumeClaim main-main-0", "its volume and its pod are replaced"),
		step("delete pod main-0", "its volume and its pod are replaced"),
		And(step("promote the learner in pod main-0", "allowed"), HaveSuffix(joins)),
		step("update the configuration in pod main-1", "its sidecar adds no learner"),
		And(step("transfer leadership from the member in pod main-1 to main-0", "after it has transferred the leadership"), HaveSuffix(leaderMoves)),
		And(step("remove member main-1 from etcd", "allowed"), HaveSuffix(leaves)),
		step("delete PersistentVolumeClaim main-main-1", "its volume and its pod are deleted"),
		step("reset Lease main-1", "its volume and its pod are deleted"),
		"end: 1 of 1 healthy, and the member runs the latest rendered manifests",
	}
}

// step matches the paragraph of a step whose reason contains a text.
func step(act, reason string) gomegatypes.GomegaMatcher {
	return And(HavePrefix(act+", because "), ContainSubstring(reason))
}

// clusterWith returns a cluster of one member without TLS, whose Etcd the real operator has rolled out five minutes ago.
func clusterWith(change func(*druidv1alpha1.Etcd)) *kube.Cluster {
	GinkgoHelper()
	k := kube.New(scheme)
	k.Clock.SetTime(time.Now().Add(-5 * time.Minute))
	desired := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: k.Etcd.Name}}
	desired.Spec.Replicas, desired.Spec.Labels, desired.Spec.Etcd.EnableTLS = 1, map[string]string{"role": "main"}, new(false)
	if change != nil {
		change(desired)
	}
	images := state.Images{EtcdWrapper: wrapperImage, BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1"}
	c := k.Client(nil)
	Expect(c.Create(context.Background(), desired)).To(Succeed())
	operator := &etcd.Reconciler{
		Client: c, Reader: c, Clock: k.Clock, Recorder: &events.FakeRecorder{}, Snapshots: calls.NewRunner[etcdcluster.SnapshotCall](), Space: calls.NewRunner[etcdcluster.SpaceCall](),
		Observer: &observer.Observer{Reader: c, APIReader: c, Etcd: k.Connector(nil), Clock: k.Clock},
		Config: target.Config{LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath}, Defaults: state.Defaults{
			ImageSets: map[string]state.Images{"3.4": images, "3.5": {
				EtcdWrapper: "registry.example.com/etcd-wrapper:v0.7.0", BackupRestore: "registry.example.com/etcdbrctl:v2", Init: "registry.example.com/init:v1",
			}},
		}},
	}
	isRolledOut := func() bool {
		last := k.EtcdObject().Status.LastOperation

		return last != nil && last.State == druidv1alpha1.LastOperationStateSucceeded
	}
	for range 100 {
		if isRolledOut() {
			break
		}
		_, err := operator.Reconcile(context.Background(), reconcile.Request{NamespacedName: k.Etcd})
		Expect(err).NotTo(HaveOccurred())
		k.Tick()
	}
	Expect(isRolledOut()).To(BeTrue(), "%+v", k.EtcdObject().Status)

	return k
}

// breakMember replaces the pod by one that cannot start: no member is healthy, and the claim has data.
func breakMember(k *kube.Cluster) {
	k.BreakImage(wrapperImage)
	Expect(k.Client(nil).Delete(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: "main-0"}})).To(Succeed())
	for range 5 {
		k.Tick()
	}
}

// failVerification makes the Job of a restore verification that has failed, and that was reported.
func failVerification(k *kube.Cluster) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: k.Etcd.Namespace, Name: "main-verify",
		Labels: map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main"},
		Annotations: map[string]string{
			"etcd-druid.extensions.gardener.cloud/store":    `Local container "bucket" prefix "snapshots"`,
			"etcd-druid.extensions.gardener.cloud/recorded": "failed",
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(k.EtcdObject(), druidv1alpha1.SchemeGroupVersion.WithKind("Etcd"))},
	}}
	c := k.Client(nil)
	Expect(c.Create(context.Background(), job)).To(Succeed())
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded}}
	Expect(c.Status().Update(context.Background(), job)).To(Succeed())
}

// planOf runs the command with the stored manifest after a change, and returns the paragraphs that it prints.
func planOf(ctx context.Context, k *kube.Cluster, change func(*druidv1alpha1.Etcd)) []string {
	GinkgoHelper()
	stored := k.EtcdObject().DeepCopy()
	manifest := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: stored.Namespace, Name: stored.Name}, Spec: stored.Spec}
	manifest.SetGroupVersionKind(druidv1alpha1.SchemeGroupVersion.WithKind("Etcd"))
	if change != nil {
		change(manifest)
	}
	encoded, err := yaml.Marshal(manifest)
	Expect(err).NotTo(HaveOccurred())
	out := &bytes.Buffer{}
	code := app.Run(ctx, genericiooptions.IOStreams{In: bytes.NewReader(encoded), Out: out, ErrOut: out},
		[]string{"plan", "-f", "-", "--kubeconfig", "/dev/null", "--server", apiServer(k).URL})
	Expect(code).To(BeZero(), out.String())

	return paragraphsOf(out.String())
}

// numbers begin the paragraphs.
var numbers = regexp.MustCompile(`(?m)^ *\d+\. `)

// paragraphsOf are the numbered paragraphs of a text, without their numbers and line breaks, and without the paragraph after them.
func paragraphsOf(text string) []string {
	numbered, _, _ := strings.Cut(text, "\n\n")
	var paragraphs []string
	for _, paragraph := range numbers.Split(numbered, -1)[1:] {
		paragraphs = append(paragraphs, strings.Join(strings.Fields(paragraph), " "))
	}

	return paragraphs
}
