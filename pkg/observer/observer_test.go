// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"encoding/pem"
	"errors"
	"reflect"
	"strconv"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	fakeetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/panics"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Observer", func() {
	var (
		ctx     = context.Background()
		etcd    *druidv1alpha1.Etcd
		objects []client.Object
		calls   interceptor.Funcs
		members *fakeetcd.Cluster
	)

	labels := map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "demo", Labels: labels, UID: types.UID("uid-of-" + name)}
	}
	lease := func(name, component, holder string) *coordinationv1.Lease {
		object := &coordinationv1.Lease{ObjectMeta: meta(name), Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		object.Labels = map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main", "app.kubernetes.io/component": component}

		return object
	}
	pod := func(name, ip string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: meta(name), Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: ip}}, Phase: corev1.PodRunning}}
	}
	newObserver := func() *observer.Observer {
		GinkgoHelper()
		scheme := runtime.NewScheme()
		Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
		Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
		builder := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(calls)
		for field, value := range map[string]func(*corev1.Event) string{
			"involvedObject.kind": func(e *corev1.Event) string { return e.InvolvedObject.Kind },
			"involvedObject.name": func(e *corev1.Event) string { return e.InvolvedObject.Name },
			"type":                func(e *corev1.Event) string { return e.Type },
		} {
			builder = builder.WithIndex(&corev1.Event{}, field, func(object client.Object) []string { return []string{value(object.(*corev1.Event))} })
		}
		c := builder.Build()

		return &observer.Observer{Reader: c, APIReader: c, Etcd: members}
	}

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Spec.Replicas = 1
		objects, calls = nil, interceptor.Funcs{}
		members = fakeetcd.NewCluster(7)
	})

	It("observes an empty namespace, and sends no request to a member", func() {
		observed := newObserver().Observe(ctx, etcd, observer.Request{QueryEtcd: true, Events: true})
		Expect(observed).To(Equal(etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Name: "druid-main"},
			Claims:          []etcdcluster.Claim{{Name: "main-main-0"}},
		}))
	})

	It("reads the ManagedResource and the state in its annotations", func() {
		objects = append(objects, &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Name: "druid-main", Namespace: "demo", Generation: 3, Annotations: map[string]string{
				"gardener.cloud/operation":                   "reconcile",
				"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"size":3,"tls":{"client":"given","peer":"given"}}`,
			}},
			Status: resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 3},
		})
		observed := newObserver().Observe(ctx, etcd, observer.Request{})
		Expect(observed.ManagedResource).To(Equal(etcdcluster.ManagedResource{Exists: true, Name: "druid-main", GenerationObserved: true, ReconcileRequested: true}))
		Expect(observed.State).To(Equal(state.State{Size: 3, TLS: state.TLSModes{Client: state.ModeUserProvided, Peer: state.ModeUserProvided}}))
	})

	It("reads the StatefulSet", func() {
		objects = append(objects, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo", UID: "sts", Generation: 2,
				OwnerReferences: []metav1.OwnerReference{{Kind: "Etcd", Name: "main", UID: "etcd-uid", Controller: new(true)}},
				Annotations:     map[string]string{"etcd-druid.extensions.gardener.cloud/rendering": "abc"}},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(1)), ServiceName: "main-peer", Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "etcd", Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: 2379}, {Name: "server", ContainerPort: 2380}}},
				}}},
			},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 1, UpdateRevision: "main-1"},
		})
		observed := newObserver().Observe(ctx, etcd, observer.Request{}).StatefulSet
		Expect(observed.OwnerUID).To(BeEquivalentTo("etcd-uid"))
		Expect(observed.GenerationObserved()).To(BeTrue())
		Expect(observed.UpdateRevision).To(Equal("main-1"))
		Expect([]int32{observed.ClientPort, observed.PeerPort}).To(Equal([]int32{2379, 2380}))
		Expect(observed.Rendering).To(Equal(etcdcluster.Rendering{Checksum: "abc", Fixed: etcdcluster.FixedFields{
			ServiceName: "main-peer", PodManagementPolicy: "OrderedReady", Selector: labels,
		}}))
	})

	DescribeTable("counts the pod that a surge has created as up to date, although a webhook has changed the template since",
		func(surge, template, revision string, claims int) {
			record := `{"version":1,"size":1,"surge":` + surge + `}`
			objects = append(objects, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "druid-main", Namespace: "demo", Annotations: map[string]string{
				"etcd-druid.extensions.gardener.cloud/state": record,
			}}}, &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo", Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/template": template}},
				Status:     appsv1.StatefulSetStatus{UpdateRevision: "main-2"},
			})
			created := pod("main-0", "10.0.0.1")
			created.Labels = map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main", "controller-revision-hash": "main-1"}
			objects = append(objects, created)
			observed := newObserver().Observe(ctx, etcd, observer.Request{})
			Expect(observed.Pods).To(ConsistOf(HaveField("RevisionHash", revision)))
			Expect(observed.Claims).To(HaveLen(claims))
		},
		Entry("with the same rendered template", `{"phase":"Complete","pod":"uid-of-main-0","template":"abc"}`, "abc", "main-2", 1),
		Entry("not with another rendered template", `{"phase":"Complete","pod":"uid-of-main-0","template":"abc"}`, "def", "main-1", 1),
		Entry("not if it is another pod", `{"phase":"Complete","pod":"another","template":"abc"}`, "abc", "main-1", 1),
		Entry("not if the template is not known", `{"phase":"Complete","pod":"uid-of-main-0"}`, "", "main-1", 1),
		Entry("not during the surge, in which the claim of the temporary member is read", `{"phase":"CleanUp","pod":"uid-of-main-0","template":"abc"}`, "abc", "main-1", 2),
	)

	Describe("the version of etcd", func() {
		statefulSet := func(image string) *appsv1.StatefulSet {
			return &appsv1.StatefulSet{ObjectMeta: meta("main"), Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: image}}}}}}
		}
		recorded := func(version string) *resourcesv1alpha1.ManagedResource {
			return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "druid-main", Namespace: "demo", Annotations: map[string]string{
				"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"etcdVersion":"` + version + `"}`,
			}}}
		}

		DescribeTable("of a cluster without a record is that of its members, or else that of its image",
			func(image string, reported []string, expected string) {
				objects = append(objects, statefulSet(image))
				for i, version := range reported {
					address := "10.0.0." + strconv.Itoa(i+1)
					objects = append(objects, pod("main-"+strconv.Itoa(i), address))
					members.AddMember(uint64(i)+1, "main-"+strconv.Itoa(i), address+":2379") // #nosec G115 -- 0 to 2
					members.SetVersion(uint64(i)+1, version)                                 // #nosec G115 -- 0 to 2
				}
				observed := newObserver().Observe(ctx, etcd, observer.Request{})
				Expect(observed.StatefulSet.EtcdImage).To(Equal(image))
				Expect(observed.State.EtcdVersion).To(Equal(expected))
			},
			Entry("the only member", "example.com/etcd-wrapper:v0.6.2", []string{"3.5.27"}, "3.5"),
			Entry("the newest of two versions", "example.com/etcd-wrapper:v0.6.2", []string{"3.5.27", "3.4.34"}, "3.5"),
			Entry("the image", "example.com/etcd-wrapper:v0.7.0", nil, "3.5"),
			Entry("the image, to which the only responding member does not change yet", "example.com/etcd-wrapper:v0.7.0", []string{"3.4.34"}, "3.5"),
			Entry("unknown", "example.com/own:v0", nil, ""),
		)

		It("is observed again if the record is lost", func() {
			lost := recorded("")
			lost.Annotations = nil
			objects = append(objects, statefulSet("example.com/etcd-wrapper:v0.7.0"), lost)
			Expect(newObserver().Observe(ctx, etcd, observer.Request{}).State.EtcdVersion).To(Equal("3.5"))
		})

		It("stays as it is recorded, whatever the members report", func() {
			objects = append(objects, statefulSet("example.com/etcd-wrapper:v0.7.0"), recorded("3.4"))
			Expect(newObserver().Observe(ctx, etcd, observer.Request{}).State.EtcdVersion).To(Equal("3.4"))
		})

		DescribeTable("makes the observer query a single member",
			func(needsMembers, needsAuth, queried bool, auth *bool, clusterVersion string) {
				objects = append(objects, statefulSet("example.com/etcd-wrapper:v0.7.0"), recorded("3.4"), pod("main-0", "10.0.0.1"))
				members.AddMember(1, "main-0", "10.0.0.1:2379")
				members.SetAuth(true)
				observed := newObserver().Observe(ctx, etcd, observer.Request{
					NeedsMembers: func(o etcdcluster.Observation) bool {
						Expect(o.State.EtcdVersion).To(Equal("3.4"))
						Expect(o.StatefulSet.Exists).To(BeTrue())

						return needsMembers
					},
					NeedsAuth:           func(etcdcluster.Observation) bool { return needsAuth },
					NeedsClusterVersion: func(etcdcluster.Observation) bool { return needsMembers },
				})
				Expect(observed.Etcd.Queried).To(Equal(queried))
				Expect(observed.Etcd.AuthEnabled).To(Equal(auth))
				Expect(observed.Etcd.ClusterVersion).To(Equal(clusterVersion))
			},
			Entry("for an upgrade", true, false, true, nil, "3.4.0"),
			Entry("for a downgrade, and whether clients authenticate", true, true, true, new(true), "3.4.0"),
			Entry("not without a reason", false, false, false, nil, ""),
		)
	})

	It("does not take what was said of an earlier ManagedResource for the newest", func() {
		objects = append(objects, &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Name: "druid-main", Namespace: "demo", Generation: 4},
			Status:     resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 3},
		})
		Expect(newObserver().Observe(ctx, etcd, observer.Request{}).ManagedResource.GenerationObserved).To(BeFalse())
	})

	It("reads as many claims as the largest size of the cluster, also while it is hibernated", func() {
		etcd.Spec.Replicas = 0
		objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-2")}, &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Name: "druid-main", Namespace: "demo", Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"size":3}`}},
		})
		observed := newObserver().Observe(ctx, etcd, observer.Request{}).Claims
		Expect(observed).To(HaveLen(3))
		Expect(observed[2].Exists).To(BeTrue())
	})

	It("reads the claim of the extra member before a volume migration adds it", func() {
		etcd.Spec.Replicas = 3
		objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-3")}, &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Name: "druid-main", Namespace: "demo", Annotations: map[string]string{
				"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"size":3,"migration":{"phase":"Requested"}}`,
			}},
		})
		observed := newObserver().Observe(ctx, etcd, observer.Request{}).Claims
		Expect(observed).To(HaveLen(4))
		Expect(observed[3].Exists).To(BeTrue())
	})

	It("finds the claims of a cluster of long ago, which carry other labels", func() {
		etcd.Spec.Replicas = 3
		older := &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-1")}
		older.Labels = map[string]string{"name": "etcd", "instance": "main"}
		older.CreationTimestamp = metav1.Date(2021, 1, 1, 12, 0, 0, 0, time.UTC)
		objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-0")}, older)
		observed := newObserver().Observe(ctx, etcd, observer.Request{})
		Expect(observed.Failures).To(BeEmpty())
		Expect(observed.Claims).To(HaveLen(3))
		Expect([]bool{observed.Claims[0].Exists, observed.Claims[1].Exists, observed.Claims[2].Exists}).To(Equal([]bool{true, true, false}))
		Expect(observed.ForeignClaims).To(BeEmpty())
		Expect(observed.Claims[1].UID).To(BeEquivalentTo("uid-of-main-main-1"))
		Expect(observed.Claims[1].CreationTime).To(BeTemporally("==", time.Date(2021, 1, 1, 12, 0, 0, 0, time.UTC)))
	})

	DescribeTable("separates claims that do not belong to the Etcd", func(size string, owner types.UID, expected bool) {
		etcd.UID = "own"
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-0")}
		claim.Labels = map[string]string{"app.kubernetes.io/part-of": "main"}
		objects = append(objects, claim)
		if size != "" {
			objects = append(objects, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
				Namespace: "demo", Name: "druid-main", Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"size":` + size + `}`},
			}})
		}
		if owner != "" {
			statefulSet := &appsv1.StatefulSet{ObjectMeta: meta("main"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1))}}
			statefulSet.OwnerReferences = []metav1.OwnerReference{{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: "main", UID: owner, Controller: new(true)}}
			objects = append(objects, statefulSet)
		}
		observation := newObserver().Observe(ctx, etcd, observer.Request{})
		own, foreign := observation.Claims, observation.ForeignClaims
		if expected {
			own, foreign = foreign, own
		}
		Expect(own).To(ConsistOf(HaveField("Name", "main-main-0")))
		Expect(foreign).To(BeEmpty())
	},
		Entry("before any member ran", "", types.UID(""), true),
		Entry("while a StatefulSet of something else runs", "", types.UID("other"), true),
		Entry("but not where a member ran with it", "1", types.UID(""), false),
		Entry("but not while a member of the adopted cluster runs with it", "", types.UID("own"), false),
	)

	It("finds the claims of more members than the spec requests if no size is recorded", func() {
		objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-0")}, &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-4")})
		observed := newObserver().Observe(ctx, etcd, observer.Request{}).Claims
		Expect(observed).To(HaveExactElements(HaveField("Name", "main-main-0"), HaveField("Name", "main-main-4")))
		Expect(observed[1].Ordinal).To(Equal(4))

		objects = append(objects, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "druid-main", Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"size":1}`},
		}})
		Expect(newObserver().Observe(ctx, etcd, observer.Request{}).Claims).To(HaveLen(1), "those of a member that never was")

		metav1.SetMetaDataAnnotation(&objects[len(objects)-1].(*resourcesv1alpha1.ManagedResource).ObjectMeta, "etcd-druid.extensions.gardener.cloud/state", `{"version":1,"size":1,"restore":"discard"}`)
		Expect(newObserver().Observe(ctx, etcd, observer.Request{}).Claims).To(HaveLen(2), "what a restore discards")
	})

	It("reads the claims of a new cluster that exist, and none of them if only known claims matter", func() {
		var names []string
		calls.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isClaim := object.(*corev1.PersistentVolumeClaim); isClaim {
				names = append(names, key.Name)
			}

			return c.Get(ctx, key, object, options...)
		}
		orphaned := &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-4")}
		orphaned.Labels = nil // the caches do not contain it
		objects = append(objects, orphaned)
		Expect(newObserver().Observe(ctx, etcd, observer.Request{}).ForeignClaims).To(HaveLen(1))
		Expect(names).To(HaveExactElements("main-main-4"))

		names = nil
		observed := newObserver().Observe(ctx, etcd, observer.Request{KnownClaims: true})
		Expect(observed.Claims).To(HaveExactElements(etcdcluster.Claim{Name: "main-main-0"}))
		Expect(observed.ForeignClaims).To(BeEmpty())
		Expect(names).To(BeEmpty())

		objects = append(objects, &appsv1.StatefulSet{ObjectMeta: meta("main")})
		newObserver().Observe(ctx, etcd, observer.Request{KnownClaims: true})
		Expect(names).To(HaveExactElements("main-main-0"), "a cluster that runs can have claims with other labels")
	})

	It("takes no claim for missing that cannot be read", func() {
		calls.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isClaim := object.(*corev1.PersistentVolumeClaim); isClaim {
				return errors.New("no answer")
			}

			return c.Get(ctx, key, object, options...)
		}
		unlabelled := &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-0")}
		unlabelled.Labels = nil
		objects = append(objects, unlabelled)
		observed := newObserver().Observe(ctx, etcd, observer.Request{})
		Expect(observed.Failures).To(ConsistOf(etcdcluster.ReadFailure{Section: "PersistentVolumeClaims", Message: "reading claim main-main-0: no answer"}))
	})

	It("does not begin a new cluster if the claims that an earlier one may have left cannot be listed", func() {
		calls.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, isMetadata := list.(*metav1.PartialObjectMetadataList); isMetadata {
				return errors.New("no answer")
			}

			return c.List(ctx, list, options...)
		}
		observed := newObserver().Observe(ctx, etcd, observer.Request{})
		Expect(observed.Failures).To(ContainElement(etcdcluster.ReadFailure{Section: "PersistentVolumeClaims", Message: "listing the claims of the namespace: no answer"}))
	})

	It("takes a StatefulSet that names no replicas for one of one", func() {
		objects = append(objects, &appsv1.StatefulSet{ObjectMeta: meta("main")})
		Expect(newObserver().Observe(ctx, etcd, observer.Request{}).StatefulSet.SpecReplicas).To(BeEquivalentTo(1))
	})

	It("reads why the StatefulSet controller does not create a pod, while the pod is missing", func() {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		refused := func(name, kind, object string, uid types.UID, age time.Duration, message string) *corev1.Event {
			return &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo"}, Type: "Warning", Reason: "FailedCreate", Message: message,
				InvolvedObject: corev1.ObjectReference{Kind: kind, Name: object, UID: uid}, LastTimestamp: metav1.NewTime(now.Add(-age)),
			}
		}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo", UID: "sts"}}
		objects = append(objects, set,
			refused("a", "StatefulSet", "main", "sts", 19*time.Minute, "no PriorityClass"), refused("b", "StatefulSet", "main", "sts", 20*time.Minute, "earlier"),
			refused("c", "StatefulSet", "main", "another", time.Minute, "of an earlier one"), refused("d", "Job", "main", "sts", time.Minute, "of a Job"))
		observe := func(request observer.Request, at time.Time) string {
			o := newObserver()
			o.Clock = testclock.NewFakePassiveClock(at)
			for _, object := range objects {
				object.SetResourceVersion("")
			}

			return o.Observe(ctx, etcd, request).StatefulSet.FailedCreate
		}
		Expect(observe(observer.Request{Events: true}, now)).To(Equal("no PriorityClass"))
		Expect(observe(observer.Request{}, now)).To(BeEmpty())
		Expect(observe(observer.Request{Events: true}, now.Add(time.Minute))).To(BeEmpty(), "the controller would have tried again")
		objects = append(objects, pod("main-0", ""))
		Expect(observe(observer.Request{Events: true}, now)).To(BeEmpty())
	})

	It("knows why no node takes a pod, and nothing against one that has a node", func() {
		waiting, scheduled := pod("main-0", ""), pod("main-1", "10.0.0.2")
		waiting.Status.Conditions = []corev1.PodCondition{{Type: "PodScheduled", Status: "False", Message: "no volume"}}
		scheduled.Status.Conditions = []corev1.PodCondition{{Type: "PodScheduled", Status: "True", Message: "of before"}}
		objects = append(objects, waiting, scheduled)
		observed := newObserver().Observe(ctx, etcd, observer.Request{}).Pods
		Expect(observed[0].Unschedulable).To(Equal("no volume"))
		Expect(observed[1].Unschedulable).To(BeEmpty())
	})

	It("reads members' pods by name and no others, with the waiting reasons of their containers", func() {
		broken := pod("main-0", "10.0.0.1")
		broken.Labels = map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main", "controller-revision-hash": "main-1"}
		broken.Annotations = map[string]string{"checksum/etcd-configmap": "1", "etcd-druid.extensions.gardener.cloud/certificates": "2"}
		broken.Spec.Containers = []corev1.Container{{Name: "etcd", Image: "x"}}
		broken.Spec.Volumes = []corev1.Volume{
			{Name: "etcd-ca", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "ca"}}},
			{Name: "etcd-client-tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "client"}}},
		}
		broken.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "etcd", RestartCount: 4,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}},
		}}
		objects = append(objects, broken, pod("main-compactor-x1", ""), pod("main-x-0", ""), pod("main-00", ""))
		observed := newObserver().Observe(ctx, etcd, observer.Request{}).Pods
		Expect(observed).To(HaveLen(1))
		Expect(observed[0].RevisionHash).To(Equal("main-1"))
		Expect(observed[0].ResourceVersion).To(Equal("999"))
		Expect(observed[0]).To(And(HaveField("ConfigChecksum", "1"), HaveField("CertificatesChecksum", "2")))
		Expect(observed[0].ClientTLS).To(Equal(&etcdcluster.ClientSecrets{CA: "ca", Client: "client"}))
		Expect(observed[0].StartProblem()).To(Equal("container etcd of pod main-0 waits: CrashLoopBackOff (ended before: OOMKilled)"))
	})

	It("reads claims by exact name, and warnings only of those that are not bound", func() {
		pending := &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-0")}
		warning := func(name string, minute int, kind, message string) *corev1.Event {
			return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo"}, Type: kind, Message: message,
				InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: "main-main-0", UID: pending.UID},
				LastTimestamp:  metav1.NewTime(time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC))}
		}
		objects = append(objects, pending, &corev1.PersistentVolumeClaim{ObjectMeta: meta("main-main-x-0")},
			warning("a", 1, "Warning", "oldest"), warning("b", 3, "Warning", "newest"), warning("c", 2, "Warning", "middle"), warning("d", 4, "Normal", "well"),
			warning("e", 2, "Warning", "newest"))
		observed := newObserver().Observe(ctx, etcd, observer.Request{Events: true}).Claims
		Expect(observed).To(HaveLen(1))
		Expect(observed[0].Warnings).To(Equal([]string{"middle", "newest"}))
		Expect(newObserver().Observe(ctx, etcd, observer.Request{}).Claims[0].Warnings).To(BeEmpty())

		created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		pending.ResourceVersion, pending.CreationTimestamp = "", metav1.NewTime(created)
		for age, warnings := range map[time.Duration]int{9 * time.Second: 0, 10 * time.Second: 2} {
			later := newObserver()
			later.Clock = testclock.NewFakePassiveClock(created.Add(age))
			Expect(later.Observe(ctx, etcd, observer.Request{Events: true}).Claims[0].Warnings).To(HaveLen(warnings), age.String())
			pending.ResourceVersion = ""
		}

		pending.ResourceVersion, pending.Status.Phase = "", corev1.ClaimBound
		Expect(newObserver().Observe(ctx, etcd, observer.Request{Events: true}).Claims[0].Warnings).To(BeEmpty())
		pending.ResourceVersion, pending.Status.Phase, pending.UID = "", corev1.ClaimPending, "a recreated claim"
		Expect(newObserver().Observe(ctx, etcd, observer.Request{Events: true}).Claims[0].Warnings).To(BeEmpty())
	})

	It("reads the leases of members and snapshots", func() {
		member := lease("main-0", "etcd-member-lease", "1:7:Leader")
		member.Annotations = map[string]string{"member.etcd.gardener.cloud/tls-enabled": "true"}
		member.Spec.RenewTime = &metav1.MicroTime{Time: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
		plain, quiet := lease("main-1", "etcd-member-lease", "2:7:Member"), lease("main-2", "etcd-member-lease", "3:7:Member")
		plain.Annotations = map[string]string{"member.etcd.gardener.cloud/tls-enabled": "false"}
		objects = append(objects, member, plain, quiet, lease("main-full-snap", "etcd-snapshot-lease", "42"), lease("main-delta-snap", "etcd-snapshot-lease", "43"))
		observed := newObserver().Observe(ctx, etcd, observer.Request{})
		Expect(observed.MemberLeases).To(HaveLen(3))
		Expect(observed.MemberLeases[0].Holder).To(Equal("1:7:Leader"))
		Expect(observed.MemberLeases[0].TLSEnabled).To(HaveValue(BeTrue()))
		Expect(observed.MemberLeases[1].TLSEnabled).To(HaveValue(BeFalse()))
		Expect(observed.MemberLeases[2].TLSEnabled).To(BeNil())
		Expect(observed.MemberLeases[0].RenewTime.Unix()).To(BeEquivalentTo(1767268800))
		Expect(observed.FullSnapshotLease.Holder).To(Equal("42"))
		Expect(observed.DeltaSnapshotLease.Holder).To(Equal("43"))
	})

	Describe("Secrets", func() {
		reads := 0

		BeforeEach(func() {
			reads = 0
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{SecretRef: &corev1.SecretReference{Name: "etcd-backup"}}
			calls.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if _, is := object.(*corev1.Secret); is {
					reads++
				}

				return c.Get(ctx, key, object, options...)
			}
		})

		It("knows names of keys, and reads a Secret again only when it changed", func() {
			secret := &corev1.Secret{ObjectMeta: meta("etcd-backup"), Data: map[string][]byte{"b": nil, "a": nil}}
			objects = append(objects, secret)
			o := newObserver()
			observed := o.Observe(ctx, etcd, observer.Request{}).Secrets
			Expect(observed).To(Equal([]etcdcluster.Secret{{
				Name: "etcd-backup", Exists: true, Keys: []string{"a", "b"}, Uses: []helper.SecretUse{{Name: "etcd-backup", Field: "spec.backup.store.secretRef"}},
			}}))
			Expect(o.Observe(ctx, etcd, observer.Request{}).Secrets).To(Equal(observed))
			Expect(reads).To(Equal(1))

			writer := o.Reader.(client.Client)
			Expect(writer.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
			secret.Data = map[string][]byte{"c": nil}
			Expect(writer.Update(ctx, secret)).To(Succeed())
			Expect(o.Observe(ctx, etcd, observer.Request{}).Secrets[0].Keys).To(Equal([]string{"c"}))

			By("deleting it while a finalizer keeps it")
			secret.Finalizers = []string{"druid.gardener.cloud/etcd-druid"}
			Expect(writer.Update(ctx, secret)).To(Succeed())
			Expect(o.Observe(ctx, etcd, observer.Request{}).Secrets[0].Deleting).To(BeFalse())
			Expect(writer.Delete(ctx, secret)).To(Succeed())
			Expect(o.Observe(ctx, etcd, observer.Request{}).Secrets[0]).To(And(HaveField("Exists", true), HaveField("Deleting", true), HaveField("Keys", []string{"c"})))

			Expect(writer.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
			secret.Finalizers = nil
			Expect(writer.Update(ctx, secret)).To(Succeed())
			Expect(o.Observe(ctx, etcd, observer.Request{}).Secrets[0].Exists).To(BeFalse())
		})

		It("compares the certificates of each key", func() {
			certificate := func(content string) string {
				return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))
			}
			data := map[string][]byte{"ca.pem": []byte(certificate("first")), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("key")})}
			objects = append(objects, &corev1.Secret{ObjectMeta: meta("etcd-backup"), Data: data})
			o := newObserver()
			checksums := func() map[string]string {
				GinkgoHelper()

				return o.Observe(ctx, etcd, observer.Request{}).Secrets[0].CertificateChecksums
			}
			first, writer := checksums(), o.Reader.(client.Client)
			Expect(first).To(And(HaveLen(1), HaveKeyWithValue("ca.pem", MatchRegexp("^[0-9a-f]{64}$"))))
			update := func(key, value string) {
				GinkgoHelper()
				secret := &corev1.Secret{}
				Expect(writer.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: "etcd-backup"}, secret)).To(Succeed())
				secret.Data[key] = []byte(value)
				Expect(writer.Update(ctx, secret)).To(Succeed())
			}
			update("ca.pem", "# a comment\n"+certificate("first"))
			Expect(checksums()).To(Equal(first))
			update("ca.pem", certificate("first")+certificate("second"))
			Expect(checksums()["ca.pem"]).NotTo(Equal(first["ca.pem"]))
			update("ca.pem", certificate("second"))
			Expect(checksums()["ca.pem"]).NotTo(Equal(first["ca.pem"]))
			update("ca.pem", certificate("first"))
			Expect(checksums()).To(Equal(first))
		})

		It("includes those that a pod mounts still and the spec names no more", func() {
			objects = append(objects, &corev1.Secret{ObjectMeta: meta("server-before"), Data: map[string][]byte{"tls.crt": nil}},
				&corev1.Pod{ObjectMeta: meta("main-0"), Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
					Name: "etcd-server-tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "server-before"}},
				}}}})
			observed := newObserver().Observe(ctx, etcd, observer.Request{}).Secrets
			Expect(observed).To(ContainElement(And(HaveField("Name", "server-before"), HaveField("Exists", true), HaveField("Uses", BeEmpty()))))
		})

		It("includes those of the request in addition to those of the spec", func() {
			observed := newObserver().Observe(ctx, etcd, observer.Request{Secrets: []helper.SecretUse{{Name: "more", Field: "backupEntry"}}}).Secrets
			Expect(observed).To(HaveLen(2))
			Expect(observed[1].Name).To(Equal("more"))
			Expect(etcdcluster.MissingSecrets(etcdcluster.Observation{Secrets: observed})).To(HaveLen(2))
		})
	})

	Describe("etcd", func() {
		BeforeEach(func() {
			objects = append(objects, pod("main-0", "10.0.0.1"), pod("main-1", "10.0.0.2"), pod("main-2", "fd00::3"))
			members.AddMember(1, "main-0", "10.0.0.1:2379")
			members.AddMember(2, "main-1", "10.0.0.2:2379")
			members.AddMember(3, "main-2", "[fd00::3]:2379")
		})

		It("is queried at the addresses of the pods", func() {
			members.Stop(1)
			members.Raise(etcdcluster.Alarm{MemberID: 2, Type: "NOSPACE"})
			observed := newObserver().Observe(ctx, etcd, observer.Request{QueryEtcd: true}).Etcd
			Expect(observed.Queried).To(BeTrue())
			Expect(observed.Members).To(HaveLen(3))
			Expect(observed.Members[0].Reachable).To(BeFalse())
			Expect(observed.Members[0].Error).NotTo(BeEmpty())
			Expect(observed.Members[1].IsLeader()).To(BeTrue())
			Expect(observed.Members[2].Healthy).To(BeTrue())
			Expect(observed.MemberList).To(HaveLen(3))
			Expect(observed.Alarms).To(Equal([]etcdcluster.Alarm{{MemberID: 2, Type: "NOSPACE"}}))
		})

		It("is queried at the client port of a running pod, also if the spec has another one", func() {
			etcd.Spec.Etcd.ClientPort = new(int32(12379))
			for _, object := range objects {
				object.(*corev1.Pod).Spec.Containers = []corev1.Container{
					{Name: "backup-restore", Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: 1}}},
					{Name: "etcd", Ports: []corev1.ContainerPort{{Name: "server", ContainerPort: 2380}, {Name: "client", ContainerPort: 2379}}},
				}
			}
			o := newObserver()
			observed := o.Observe(ctx, etcd, observer.Request{QueryEtcd: true})
			Expect(observed.Etcd.Members).To(HaveEach(HaveField("Healthy", true)))
			Expect(observed.Pods[0].PeerPort).To(Equal(int32(2380)))
			member, err := o.Member(ctx, etcd, observed.Pods[0])
			Expect(err).NotTo(HaveOccurred())
			_, _, err = member.Status(ctx)
			Expect(err).NotTo(HaveOccurred())

			observed.Pods[0].ClientPort = 0
			member, err = o.Member(ctx, etcd, observed.Pods[0])
			Expect(err).NotTo(HaveOccurred())
			_, _, err = member.Status(ctx)
			Expect(err).To(HaveOccurred(), "the spec's is all that is known")
		})

		It("is connected again at once after a member did not respond, without the backoff of a lost connection", func() {
			members.Stop(2)
			o := newObserver()
			recorder := &disconnectRecorder{Cluster: members}
			o.Etcd = recorder
			o.Observe(ctx, etcd, observer.Request{QueryEtcd: true})
			Expect(recorder.disconnected).To(Equal([]string{"10.0.0.2:2379"}))
		})

		It("does not end the operator if a response of a member causes a panic", func() {
			o := newObserver()
			o.Etcd = &panickingConnector{Cluster: members, address: "10.0.0.2:2379"}
			observed := o.Observe(ctx, etcd, observer.Request{QueryEtcd: true}).Etcd
			Expect(observed.Members[1].Error).To(Equal(panics.Err.Error()))
			Expect(observed.Members[2].Healthy).To(BeTrue())
		})

		It("is not queried at a pod that is being deleted", func() {
			going := objects[1].(*corev1.Pod)
			going.DeletionTimestamp, going.Finalizers = new(metav1.Now()), []string{"test"}
			observed := newObserver().Observe(ctx, etcd, observer.Request{QueryEtcd: true})
			Expect(observed.Pods[1].Deleting).To(BeTrue())
			Expect(observed.Etcd.Endpoint(1)).To(BeNil())
			Expect(observed.Etcd.Members).To(HaveLen(2))
		})

		It("gives no list without a quorum", func() {
			members.Stop(1)
			members.Stop(2)
			observed := newObserver().Observe(ctx, etcd, observer.Request{QueryEtcd: true}).Etcd
			Expect(observed.Members[2].Reachable).To(BeTrue())
			Expect(observed.Members[2].Healthy).To(BeFalse())
			Expect(observed.MemberList).To(BeNil())
			Expect(observed.MemberListError).To(Equal("no member is healthy"))
		})

		It("queries the cluster that the Etcd joins at its own endpoints, if the request says so", func() {
			existing := fakeetcd.NewCluster(7)
			existing.AddMember(0x01, "old-0", "old.example.com:2379")
			etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{"http://old.example.com:2379"}}
			o := newObserver()
			o.Etcd = existing
			Expect(o.Observe(ctx, etcd, observer.Request{QueryEtcd: true}).Etcd.Existing).To(BeNil())
			observed := o.Observe(ctx, etcd, observer.Request{QueryEtcd: true, QueryExisting: true}).Etcd
			Expect(observed.Existing).To(HaveLen(1))
			Expect(observed.Existing[0]).To(And(HaveField("Healthy", true), HaveField("MemberID", BeEquivalentTo(0x01)), HaveField("Endpoint", "old.example.com:2379")))
			Expect(observed.Members).To(HaveLen(3), "the Etcd's own members are separate")
		})

		It("queries the members of the joined cluster at the client URLs that they advertise, with the recorded client endpoint", func() {
			etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{Members: []druidv1alpha1.BootstrapJoinedMember{
				{Name: "old-0", PeerURLs: []string{"http://old-0.example.com:2380"}}, {Name: "old-1", PeerURLs: []string{"http://old-1.example.com:2380"}},
			}}
			annotations, err := state.State{Existing: &state.Existing{ClientEndpoints: []string{"http://old-0.example.com:2379"}}}.Encode()
			Expect(err).NotTo(HaveOccurred())
			objects = append(objects, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "druid-main", Namespace: "demo", Annotations: annotations}})
			members.AddMember(0x11, "old-0", "old-0.example.com:2379")
			members.AddMember(0x12, "old-1", "old-1.example.com:2379")
			o := newObserver()
			observed := o.Observe(ctx, etcd, observer.Request{QueryEtcd: true, QueryExisting: true})
			Expect(observed.Etcd.Existing).To(HaveExactElements(
				And(HaveField("Healthy", true), HaveField("MemberID", BeEquivalentTo(0x11)), HaveField("Endpoint", "old-0.example.com:2379")),
				And(HaveField("Healthy", true), HaveField("MemberID", BeEquivalentTo(0x12)), HaveField("Endpoint", "old-1.example.com:2379")),
			))
			client, err := o.ExistingMember(ctx, etcd, observed, "old-1.example.com:2379")
			Expect(err).NotTo(HaveOccurred())
			status, _, err := client.Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(status.MemberID).To(BeEquivalentTo(0x12))
		})

		DescribeTable("queries no member of the joined cluster at a client URL that the configuration forbids", func(endpoint string, connected ...string) {
			etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
				ClientEndpoints: []string{endpoint},
				Members:         []druidv1alpha1.BootstrapExistingMember{{Name: "old-1", PeerURLs: []string{"http://old-1.example.com:2380"}}},
			}
			annotations, err := state.State{Accepted: &state.Accepted{Generation: 1, Spec: &etcd.Spec}}.Encode()
			Expect(err).NotTo(HaveOccurred())
			objects = append(objects, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "druid-main", Namespace: "demo", Annotations: annotations}})
			members.AddMember(0x11, "old-1", "old-1.foreign.com:2379")
			o := newObserver()
			o.Restrictions.AllowedEndpoints = []string{"*.example.com"}
			recorder := &connectRecorder{Cluster: members}
			o.Etcd = recorder
			o.Observe(ctx, etcd, observer.Request{QueryEtcd: true, QueryExisting: true})
			Expect(recorder.connected).To(ConsistOf(append(connected, "10.0.0.1:2379", "10.0.0.2:2379", "[fd00::3]:2379")))
		},
			Entry("and that it advertises", "http://old.example.com:2379", "old.example.com:2379"),
			Entry("unless the Etcd had joined at a forbidden endpoint before", "http://old.foreign.com:2379", "old.foreign.com:2379", "old-1.foreign.com:2379"),
		)

		It("queries each member of the joined cluster at two client URLs, whatever it advertises", func() {
			etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
				ClientEndpoints: []string{"http://old.example.com:2379"},
				Members:         []druidv1alpha1.BootstrapExistingMember{{Name: "old-1", PeerURLs: []string{"http://old-1.example.com:2380"}}},
			}
			for i := range 64 {
				members.AddMember(0x100+uint64(i), "old-1", "old-1.example.com:"+strconv.Itoa(3000+i)) // #nosec G115 -- 0 to 63
			}
			o := newObserver()
			recorder := &connectRecorder{Cluster: members}
			o.Etcd = recorder
			o.Observe(ctx, etcd, observer.Request{QueryEtcd: true, QueryExisting: true})
			Expect(recorder.connected).To(ContainElement("old-1.example.com:3000"))
			Expect(len(recorder.connected)).To(BeNumerically("<=", 6), "three members of the Etcd, the endpoint, and two others")
		})

		It("is not queried without a request for it", func() {
			Expect(newObserver().Observe(ctx, etcd, observer.Request{}).Etcd.Queried).To(BeFalse())
			Expect(members.Calls()).To(BeZero())
		})

		It("reports an unreachable member if its client certificate cannot be read", func() {
			objects[0].(*corev1.Pod).Spec.Volumes = []corev1.Volume{{Name: "etcd-ca", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "gone"}}}}
			observed := newObserver().Observe(ctx, etcd, observer.Request{QueryEtcd: true}).Etcd
			Expect(observed.Members[0].Reachable).To(BeFalse())
			Expect(observed.Members[0].Error).To(ContainSubstring("Secret gone"))
		})
	})

	DescribeTable("reports what could not be read",
		func(list client.ObjectList, get client.Object, section etcdcluster.Section) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{SecretRef: &corev1.SecretReference{Name: "etcd-backup"}}
			calls.List = func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
				if list != nil && sameType(l, list) {
					return errors.New("timeout")
				}

				return c.List(ctx, l, options...)
			}
			calls.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if get != nil && sameType(object, get) {
					return errors.New("timeout")
				}

				return c.Get(ctx, key, object, options...)
			}
			Expect(newObserver().Observe(ctx, etcd, observer.Request{}).Failure(section)).To(ContainSubstring("timeout"))
		},
		Entry("the ManagedResource", nil, &resourcesv1alpha1.ManagedResource{}, etcdcluster.SectionManagedResource),
		Entry("the StatefulSet", nil, &appsv1.StatefulSet{}, etcdcluster.SectionStatefulSet),
		Entry("pods", &corev1.PodList{}, nil, etcdcluster.SectionPods),
		Entry("claims", &corev1.PersistentVolumeClaimList{}, nil, etcdcluster.SectionClaims),
		Entry("leases", &coordinationv1.LeaseList{}, nil, etcdcluster.SectionLeases),
		Entry("Secrets", nil, &metav1.PartialObjectMetadata{}, etcdcluster.SectionSecrets),
	)
})

func sameType(a, b any) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

// panickingConnector panics when it connects to one address.
type panickingConnector struct {
	*fakeetcd.Cluster
	address string
}

func (p *panickingConnector) Connect(ctx context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	if target.Address == p.address {
		panic("index out of range")
	}

	return p.Cluster.Connect(ctx, target)
}

// connectRecorder is a Connector that records the addresses that it was connected to.
type connectRecorder struct {
	*fakeetcd.Cluster
	lock      sync.Mutex
	connected []string
}

func (f *connectRecorder) Connect(ctx context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	f.lock.Lock()
	f.connected = append(f.connected, target.Address)
	f.lock.Unlock()

	return f.Cluster.Connect(ctx, target)
}

// disconnectRecorder is a Connector that records the addresses that it was disconnected from.
type disconnectRecorder struct {
	*fakeetcd.Cluster
	disconnected []string
}

func (f *disconnectRecorder) Disconnect(target etcdclient.Target) {
	f.disconnected = append(f.disconnected, target.Address)
}
