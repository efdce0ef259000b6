// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"errors"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	fakeetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Volumes", func() {
	var (
		ctx     = context.Background()
		volume  *corev1.PersistentVolume
		pod     *corev1.Pod
		node    *corev1.Node
		objects []client.Object
		calls   interceptor.Funcs
		members *fakeetcd.Cluster
	)

	BeforeEach(func() {
		meta := metav1.ObjectMeta{Namespace: "demo", Labels: map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main"}}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v0"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
		claim.Name = "main-main-0"
		pod = &corev1.Pod{ObjectMeta: meta}
		pod.Name = "main-0"
		volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v0"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
				{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"host-1"}},
			}}}},
		}}}
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"kubernetes.io/hostname": "host-1"}}}
		objects, calls, members = []client.Object{claim, pod, volume, node}, interceptor.Funcs{}, nil
	})

	observe := func() etcdcluster.Observation {
		GinkgoHelper()
		scheme := runtime.NewScheme()
		Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
		Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(calls).Build()
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.Spec.Replicas = "main", "demo", 1
		o := &observer.Observer{Reader: c, APIReader: c}

		if members != nil {
			o.Etcd = members
		}

		return o.Observe(ctx, etcd, observer.Request{Volumes: true, StorageClasses: true, QueryEtcd: true})
	}
	without := func(gone client.Object) {
		var left []client.Object
		for _, object := range objects {
			if object != gone {
				left = append(left, object)
			}
		}
		objects = left
	}

	It("reports what decides whether the data of a volume stays when its claim is deleted", func() {
		volume.UID, volume.Annotations = "pv-uid", map[string]string{"pv.kubernetes.io/provisioned-by": "csi.example.com"}
		volume.Labels = map[string]string{"etcd-druid.extensions.gardener.cloud/retained-for-uid": "etcd-uid"}
		volume.Spec.PersistentVolumeReclaimPolicy, volume.Spec.ClaimRef = corev1.PersistentVolumeReclaimRetain, &corev1.ObjectReference{UID: "claim-uid"}
		Expect(observe().Volumes).To(Equal([]etcdcluster.PersistentVolume{
			{Name: "v0", Exists: true, UID: "pv-uid", ClaimUID: "claim-uid", ReclaimPolicy: "Retain", Dynamic: true, RetainedFor: "etcd-uid"},
		}))
	})

	DescribeTable("reports whether a provisioner creates another volume for the next claim",
		func(provisioner string, isDynamic bool) {
			volume.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}
			Expect(observe().Volumes[0].Dynamic).To(Equal(isDynamic))
		},
		Entry("of a CSI driver", "csi.example.com", true),
		Entry("without one", "", false),
		Entry("of the provisioner of local disks", "local-volume-provisioner-node-1-uid", false),
	)

	It("reads the volumes that the operator retains, also those that do not exist any more", func() {
		retained := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "retained", UID: "pv-uid"}}
		record, err := state.State{Retained: []state.RetainedVolume{{Name: "retained", UID: "pv-uid"}, {Name: "gone", UID: "other-uid"}}}.Encode()
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, retained, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "druid-main", Annotations: record}})
		Expect(observe().Volumes).To(HaveExactElements(
			And(HaveField("Name", "gone"), HaveField("Exists", false)), And(HaveField("Name", "retained"), HaveField("Exists", true)), HaveField("Name", "v0")))
	})

	It("reads the volumes of healthy members only if members have different data", func() {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		Expect(observe().Volumes).To(BeEmpty())
		record, err := state.State{Inconsistency: &state.Inconsistency{Comparisons: 1}}.Encode()
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "druid-main", Annotations: record}})
		Expect(observe().Volumes).To(ConsistOf(HaveField("Name", "v0")))
	})

	It("reports a pod that the client Service does not select because of the data of its member", func() {
		pod.Labels["app.kubernetes.io/name"] = "main"
		Expect(observe().Pods).To(ConsistOf(HaveField("Excluded", false)))
		pod.Labels["app.kubernetes.io/name"] = "excluded-from-clients"
		Expect(observe().Pods).To(ConsistOf(HaveField("Excluded", true)))
	})

	It("finds the node to which a volume is bound by its hostname", func() {
		o := observe()
		Expect(o.Claims[0].Nodes).To(Equal([]string{"host-1"}))
		Expect(o.Claims[0].Lost).To(BeFalse())
		Expect(o.Nodes).To(Equal([]etcdcluster.Node{{Name: "host-1", Exists: true}}))
	})

	It("reports a node that does not exist", func() {
		without(node)
		Expect(observe().Nodes).To(Equal([]etcdcluster.Node{{Name: "host-1"}}))
	})

	It("finds a node by its name where no node has that hostname", func() {
		node.Labels, node.Name = nil, "host-1"
		Expect(observe().Nodes).To(Equal([]etcdcluster.Node{{Name: "host-1", Exists: true}}))
	})

	It("reports a node that is out of service", func() {
		node.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoExecute}}
		Expect(observe().Nodes[0].OutOfService).To(BeTrue())
	})

	It("does not report an unreachable node as out of service", func() {
		node.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}}
		Expect(observe().Nodes[0].OutOfService).To(BeFalse())
	})

	It("reports a volume that does not exist any more", func() {
		without(volume)
		Expect(observe().Claims[0].Lost).To(BeTrue())
	})

	It("reads no node if the volume can be used on any", func() {
		volume.Spec.NodeAffinity = nil
		Expect(observe().Claims[0].Nodes).To(BeEmpty())
		Expect(observe().Nodes).To(BeEmpty())
	})

	It("reads no node if one alternative names none", func() {
		terms := &volume.Spec.NodeAffinity.Required.NodeSelectorTerms
		*terms = append(*terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}}})
		Expect(observe().Claims[0].Nodes).To(BeEmpty())
	})

	It("does not read volumes of pods that are ready", func() {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		without(volume)
		Expect(observe().Claims[0].Lost).To(BeFalse())
	})

	It("reads volumes of terminating pods, although they are ready", func() {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pod.DeletionTimestamp, pod.Finalizers = new(metav1.Now()), []string{"test/stays"}
		Expect(observe().Claims[0].Nodes).To(Equal([]string{"host-1"}))
	})

	It("reads volumes of pods that are ready if their member is unreachable and another member responds", func() {
		members = fakeetcd.NewCluster(7)
		other := pod.DeepCopy()
		other.Name = "main-1"
		objects = append(objects, other)
		for id, member := range []*corev1.Pod{pod, other} {
			address := fmt.Sprintf("10.0.0.%d", id)
			member.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			member.Status.PodIPs = []corev1.PodIP{{IP: address}}
			members.AddMember(uint64(id+1), member.Name, address+":2379") // #nosec G115 -- 0 or 1
		}
		without(node)
		Expect(observe().Nodes).To(BeEmpty(), "both are healthy")
		members.Stop(1)
		Expect(observe().Nodes).To(Equal([]etcdcluster.Node{{Name: "host-1"}}))
	})

	It("reports what prevents the expansion of a volume", func() {
		claim, since := objects[0].(*corev1.PersistentVolumeClaim), metav1.Now().Rfc3339Copy()
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
			{Type: "FileSystemResizePending", Status: corev1.ConditionTrue, LastTransitionTime: since, Message: "waiting for a pod"},
			{Type: "ControllerResizeError", Status: corev1.ConditionTrue, Message: "out of disks"},
			{Type: "NodeResizeError", Status: corev1.ConditionFalse, Message: "over"},
		}
		observed := observe().Claims[0]
		Expect(observed.Capacity).To(BeEquivalentTo(1 << 30))
		Expect(observed.ResizeProblem).To(Equal("out of disks"))
		Expect(observed.RemountSince).To(BeTemporally("==", since.Time))
	})

	DescribeTable("reports whether a volume that is smaller than the spec requests can be expanded",
		func(change func(*corev1.PersistentVolumeClaim, *storagev1.StorageClass), expandable *bool) {
			claim := objects[0].(*corev1.PersistentVolumeClaim)
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
			claim.Spec.StorageClassName = new("standard")
			class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, AllowVolumeExpansion: new(true)}
			objects = append(objects, class)
			change(claim, class)
			Expect(observe().Claims[0].Expandable).To(Equal(expandable))
		},
		Entry("by its class", func(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) {}, new(true)),
		Entry("not where its class forbids it", func(_ *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) {
			class.AllowVolumeExpansion = new(false)
		}, new(false)),
		Entry("not where its class says nothing", func(_ *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) { class.AllowVolumeExpansion = nil }, new(false)),
		Entry("not where its class is gone", func(_ *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) { class.Name = "other" }, new(false)),
		Entry("not where it has no class", func(claim *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			claim.Spec.StorageClassName = nil
		}, new(false)),
		Entry("and reads no class while it is as large as requested", func(claim *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("16Gi")
		}, nil),
		Entry("and reads no class before the volume exists", func(claim *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			claim.Status.Phase = corev1.ClaimPending
		}, nil),
	)

	It("reports no lost volume if it cannot read volumes", func() {
		calls.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(*corev1.PersistentVolume); is {
				return errors.New("timeout")
			}

			return c.Get(ctx, key, object, options...)
		}
		o := observe()
		Expect(o.Claims[0].Lost).To(BeFalse())
		Expect(o.Failure(etcdcluster.SectionVolumes)).To(ContainSubstring("reading PersistentVolume v0: timeout"))
	})
})
