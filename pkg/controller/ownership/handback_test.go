// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// fakeObserver returns the same observation for every Etcd.
type fakeObserver etcdcluster.Observation

func (s fakeObserver) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	return etcdcluster.Observation(s)
}

// upstreamConditions are the types of the conditions of etcd-druid.
var upstreamConditions = []upstreamv1alpha1.ConditionType{
	upstreamv1alpha1.ConditionTypeReady, upstreamv1alpha1.ConditionTypeAllMembersReady, upstreamv1alpha1.ConditionTypeAllMembersUpdated,
	upstreamv1alpha1.ConditionTypeBackupReady, upstreamv1alpha1.ConditionTypeDataVolumesReady, upstreamv1alpha1.ConditionTypeClusterIDMismatch,
	upstreamv1alpha1.ConditionTypeBootstrappedWithExistingCluster, upstreamv1alpha1.ConditionTypeLastSnapshotCompactionSucceeded,
}

var _ = Describe("GiveBack", func() {
	var (
		ctx      = context.Background()
		scheme   = runtime.NewScheme()
		druid    *resourcesv1alpha1.ManagedResource
		recorder *events.FakeRecorder
		now      = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		expires  time.Time
		// application is the end of the validity of the certificate in the connection Secret.
		application time.Time
		rotation    string
		calls       interceptor.Funcs
	)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, resourcesv1alpha1.AddToScheme, druidv1alpha1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}

	etcd := func(name string, observed int64) *druidv1alpha1.Etcd {
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--foo", Name: name, Generation: 2}}
		etcd.Spec.Replicas = 1
		etcd.Status.ObservedGeneration = &observed
		for _, condition := range append([]upstreamv1alpha1.ConditionType{"Reconciled", "StoreResolved"}, upstreamConditions...) {
			etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{Type: druidv1alpha1.ConditionType(condition), Status: "True"})
		}

		return etcd
	}
	managedResource := func(etcdName string, annotations map[string]string) *resourcesv1alpha1.ManagedResource {
		return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shoot--foo", Name: "druid-" + etcdName, Annotations: annotations, Finalizers: []string{"resources.gardener.cloud/gardener-resource-manager-seed"},
		}}
	}
	statefulSet := func(name string, claimLabels map[string]string) *appsv1.StatefulSet {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--foo", Name: name, UID: "applied", Labels: map[string]string{"app.kubernetes.io/part-of": name}}}
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: claimLabels}}}

		return set
	}
	issued := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--foo", Name: "ca-1", Labels: map[string]string{
		"managed-by": "secrets-manager", "manager-identity": "etcd-druid-stable", "persist": "true",
	}}}
	start := func(objects ...client.Object) (client.Client, *ownership.HandBack) {
		for _, object := range append(objects, druid) {
			object.SetResourceVersion("")
		}
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, druid)...).WithStatusSubresource(&druidv1alpha1.Etcd{}).WithInterceptorFuncs(calls).Build()
		o := fakeObserver{}
		o.ManagedResource = etcdcluster.ManagedResource{Exists: true, GenerationObserved: true, Applied: etcdcluster.ConditionFact{Status: "True"}}
		o.State = state.State{TLS: state.TLSModes{Client: state.ModeManaged, Peer: state.ModeManaged}, Rotation: &state.Rotation{}}
		Expect(json.Unmarshal([]byte(cmp.Or(rotation, "{}")), o.State.Rotation)).To(Succeed())
		o.StatefulSet.Exists = true
		o.StatefulSet.TLS = etcdcluster.MountedTLS{ClientCA: "ca-1", Server: "server-1", Client: "client-1", PeerCA: "peer-ca-1", Peer: "peer-1"}

		o.Secrets = []etcdcluster.Secret{
			{Name: "backup", Certificates: []etcdcluster.Certificate{{Key: "endpoint.crt", NotAfter: now}}},
			{Name: "ca-1", Certificates: []etcdcluster.Certificate{{Key: "bundle.crt", NotAfter: now.Add(9 * 365 * 24 * time.Hour)}}},
			{Name: "server-1", Certificates: []etcdcluster.Certificate{{Key: "tls.crt", NotAfter: expires}}},
		}

		o.Issued = []etcdcluster.IssuedSecret{{Name: "application-1", ForApplications: true, NotAfter: application}}

		return c, &ownership.HandBack{Client: c, Observer: o, Recorder: recorder, Clock: testclock.NewFakePassiveClock(now)}
	}
	read := func(c client.Client, name string) *resourcesv1alpha1.ManagedResource {
		GinkgoHelper()
		object := &resourcesv1alpha1.ManagedResource{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "shoot--foo", Name: "druid-" + name}, object)).To(Succeed())

		return object
	}
	release := func(c client.Client, name string) {
		GinkgoHelper()
		released := read(c, name)
		Expect(released.DeletionTimestamp).NotTo(BeNil())
		Expect(released.Spec.KeepObjects).To(HaveValue(BeTrue()))
		released.Finalizers = nil
		Expect(c.Update(ctx, released)).To(Succeed())
	}
	isIgnored := func(c client.Client) bool {
		GinkgoHelper()
		Expect(c.Get(ctx, ownership.EtcdDruidKey, druid)).To(Succeed())

		return druid.Annotations["resources.gardener.cloud/ignore"] == "true"
	}

	BeforeEach(func() {
		recorder, rotation, calls = events.NewFakeRecorder(20), "", interceptor.Funcs{}
		expires, application = time.Date(2027, 2, 3, 4, 5, 6, 0, time.UTC), time.Date(2027, 4, 3, 2, 1, 0, 0, time.UTC)
		druid = &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "etcd-druid", Annotations: map[string]string{"resources.gardener.cloud/ignore": "true"}}}
	})

	It("hands back the Etcds that it can, names those that it refuses, and starts the etcd-druid after the last one", func() {
		c, handBack := start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", nil), etcd("rolling", 1), managedResource("rolling", nil), statefulSet("rolling", nil), etcd("foreign", 1), issued.DeepCopy())

		done, err := handBack.RunOnce(ctx)
		Expect(done).To(BeFalse())
		Expect(err).To(MatchError(And(ContainSubstring("shoot--foo/rolling: its newest generation"), ContainSubstring("shoot--foo/stable: waiting"), Not(ContainSubstring("foreign")))))
		Expect(isIgnored(c)).To(BeTrue())
		complete := &druidv1alpha1.Etcd{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "shoot--foo", Name: "stable"}, complete)).To(Succeed())
		Expect(complete.Spec.Etcd.ClientUrlTLS.ServerTLSSecretRef.Name).To(Equal("server-1"))
		var conditions []upstreamv1alpha1.ConditionType
		for _, condition := range complete.Status.Conditions {
			conditions = append(conditions, upstreamv1alpha1.ConditionType(condition.Type))
		}
		Expect(conditions).To(Equal(upstreamConditions), "etcd-druid never updates other conditions")
		secret := &corev1.Secret{}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(issued), secret)).To(Succeed())
		Expect(secret.Labels).To(Equal(map[string]string{"managed-by": "secrets-manager", "persist": "true"}))
		release(c, "stable")

		rolling := &druidv1alpha1.Etcd{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "shoot--foo", Name: "rolling"}, rolling)).To(Succeed())
		Expect(rolling.Spec.Etcd.ClientUrlTLS).To(BeNil(), "what is refused is not touched")
		Expect(rolling.Status.Conditions).To(HaveLen(2+len(upstreamConditions)), "what is refused is not touched")
		rolling.Status.ObservedGeneration = new(int64(2))
		Expect(c.Status().Update(ctx, rolling)).To(Succeed())
		Expect(handBack.RunOnce(ctx)).Error().To(HaveOccurred())
		release(c, "rolling")

		Expect(handBack.RunOnce(ctx)).To(BeTrue())
		Expect(isIgnored(c)).To(BeFalse())
		Expect(druid.Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))
	})

	It("reports the first certificate that expires without renewal", func() {
		_, handBack := start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", nil))
		Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("waiting for ManagedResource")))
		Expect(recorder.Events).To(Receive(Equal("Normal HandedBack Handed back to etcd-druid; its pods are unchanged. " +
			"Its certificates are not renewed any more: replace them before 2027-02-03T04:05:06Z, when tls.crt of Secret server-1 expires")))
	})

	It("refuses an Etcd whose certificates expire soon", func() {
		expires = now.Add(59 * 24 * time.Hour)
		c, handBack := start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", nil))
		Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("tls.crt of Secret server-1 expires at 2026-03-01T12:00:00Z")))
		remaining := read(c, "stable")
		Expect(remaining.DeletionTimestamp).To(BeNil())
		Expect(remaining.Annotations).To(BeEmpty())
	})

	It("refuses an Etcd whose applications have a certificate that expires soon", func() {
		application = now.Add(58 * 24 * time.Hour)
		_, handBack := start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", nil))
		Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("tls.crt of Secret application-1 expires at 2026-02-28T12:00:00Z")))
	})

	Describe("a StatefulSet with the label of gardener-resource-manager in its volumeClaimTemplates", func() {
		labeled := map[string]string{"resources.gardener.cloud/managed-by": "gardener", "other": "label"}
		live := func(c client.Client) *appsv1.StatefulSet {
			GinkgoHelper()
			set := &appsv1.StatefulSet{}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "shoot--foo", Name: "stable"}, set)).To(Succeed())

			return set
		}

		It("is replaced without its pods, because etcd-druid could not update it", func() {
			var propagation *metav1.DeletionPropagation
			calls.Delete = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				if _, is := object.(*appsv1.StatefulSet); is {
					propagation = (&client.DeleteOptions{}).ApplyOptions(options).PropagationPolicy
				}

				return c.Delete(ctx, object, options...)
			}
			c, handBack := start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", labeled))
			Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("waiting for ManagedResource")))
			Expect(propagation).To(HaveValue(Equal(metav1.DeletePropagationOrphan)))
			set := live(c)
			Expect(set.UID).NotTo(BeEquivalentTo("applied"))
			Expect(set.Labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", "stable"))
			Expect(set.Spec.UpdateStrategy.Type).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
			Expect(set.Spec.VolumeClaimTemplates).To(ConsistOf(HaveField("Labels", Equal(map[string]string{"other": "label"}))))
		})

		It("does not exist any more only after no pod refers to it, because the garbage collector would delete such a pod", func() {
			set := statefulSet("stable", labeled)
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "etcd"}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--foo", Name: "stable-0", Labels: set.Spec.Selector.MatchLabels}}
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Other", Name: "other", UID: "other"}, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			var owners []metav1.OwnerReference
			calls.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if set, is := object.(*appsv1.StatefulSet); is && len(set.Finalizers) == 0 {
					Expect(c.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
					owners = pod.OwnerReferences
				}

				return c.Patch(ctx, object, patch, options...)
			}
			c, handBack := start(etcd("stable", 2), managedResource("stable", nil), set, pod)
			Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("waiting for ManagedResource")))
			Expect(owners).To(ConsistOf(HaveField("Name", "other")))
			Expect(live(c).Finalizers).To(BeEmpty())
		})

		It("is replaced again if gardener-resource-manager was faster", func() {
			replaced := 0
			calls.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				err := c.Patch(ctx, object, patch, options...)
				if set, is := object.(*appsv1.StatefulSet); is && err == nil && len(set.Finalizers) == 0 {
					if replaced++; replaced < 3 {
						again := statefulSet("stable", labeled)
						again.UID = types.UID(fmt.Sprintf("applied-%d", replaced))

						return c.Create(ctx, again)
					}
				}

				return err
			}
			c, handBack := start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", labeled))
			Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("waiting for ManagedResource")))
			Expect(replaced).To(Equal(3))
			Expect(live(c).Spec.VolumeClaimTemplates).To(ConsistOf(HaveField("Labels", Equal(map[string]string{"other": "label"}))))
		})

		It("stays if it cannot be created again", func() {
			calls.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return errors.New("rejected")
			}
			c, handBack := start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", labeled))
			Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("could not be created again: rejected")))
			Expect(live(c).UID).To(BeEquivalentTo("applied"))
			Expect(read(c, "stable").DeletionTimestamp).To(BeNil())
		})

		It("keeps the ManagedResource until it is created again", func() {
			c, handBack := start(etcd("stable", 2), managedResource("stable", nil))
			Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("waiting for StatefulSet stable to be created")))
			Expect(read(c, "stable").DeletionTimestamp).To(BeNil())
			Expect(c.Create(ctx, statefulSet("stable", nil))).To(Succeed())
			Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("waiting for ManagedResource")))
			Expect(live(c).UID).To(BeEquivalentTo("applied"), "it has no label")
		})
	})

	Describe("an interruption", func() {
		var (
			c        client.Client
			handBack *ownership.HandBack
			handed   *druidv1alpha1.Etcd
		)

		BeforeEach(func() {
			calls.Delete = func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return errors.New("killed")
			}
			c, handBack = start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", nil))
			Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("killed")))
			calls.Delete = nil
			handed = &druidv1alpha1.Etcd{}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "shoot--foo", Name: "stable"}, handed)).To(Succeed())
			Expect(handed.Spec.Etcd.ClientUrlTLS).NotTo(BeNil())
			handed.Generation = 3 // because of the written spec
		})

		resume := func() error {
			GinkgoHelper()
			Expect(c.Update(ctx, handed)).To(Succeed())
			_, handBack = start(handed, read(c, "stable"), statefulSet("stable", nil))
			_, err := handBack.RunOnce(ctx)

			return err
		}

		It("is completed, although the written spec is a new generation", func() {
			Expect(resume()).To(MatchError(ContainSubstring("waiting for ManagedResource druid-stable")))
		})

		It("is not assumed for a first generation that is not rolled out, although its spec is complete", func() {
			handed.Generation, handed.Status.ObservedGeneration = 1, nil
			Expect(c.Update(ctx, handed)).To(Succeed())
			_, handBack = start(handed, managedResource("stable", nil), statefulSet("stable", nil))
			Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("its newest generation is not rolled out")))
		})

		It("does not continue after the operator was active again", func() {
			handed.Status.ObservedGeneration, rotation = new(int64(3)), `{"stage":"Prepared"}`
			Expect(resume()).To(MatchError(ContainSubstring("rotated")))
		})

		It("does not accept a spec that another client wrote", func() {
			handed.Generation, handed.Spec.Replicas = 4, 3
			Expect(resume()).To(MatchError(ContainSubstring("its newest generation is not rolled out")))
		})
	})

	It("does nothing without an etcd-druid", func() {
		c, handBack := start(etcd("stable", 2), managedResource("stable", nil), statefulSet("stable", nil))
		Expect(c.Delete(ctx, druid)).To(Succeed())
		Expect(handBack.RunOnce(ctx)).Error().To(MatchError(ContainSubstring("no etcd-druid")))
		Expect(read(c, "stable").DeletionTimestamp).To(BeNil())
	})
})
