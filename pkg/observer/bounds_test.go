// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// blockingConnector is a Connector to members whose requests end only with their context.
type blockingConnector struct {
	lock         sync.Mutex
	dialled      []string
	active, peak int
}

func (s *blockingConnector) Connect(_ context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.dialled = append(s.dialled, target.Address)

	return blockingClient{blockingConnector: s}, nil
}

func (*blockingConnector) Disconnect(etcdclient.Target) {}

type blockingClient struct {
	etcdclient.Client
	*blockingConnector
}

func (s blockingClient) Status(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	s.lock.Lock()
	s.active++
	s.peak = max(s.peak, s.active)
	s.lock.Unlock()
	defer func() {
		s.lock.Lock()
		s.active--
		s.lock.Unlock()
	}()
	<-ctx.Done()

	return etcdcluster.EndpointStatus{}, nil, ctx.Err()
}

// advertisingConnector is a Connector to healthy members. Each of them lists 64 members with 64 client URLs each.
type advertisingConnector struct {
	lock    sync.Mutex
	dialled sets.Set[string]
}

func (c *advertisingConnector) Connect(_ context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.dialled.Insert(target.Address)

	return advertisingClient{}, nil
}

func (*advertisingConnector) Disconnect(etcdclient.Target) {}

type advertisingClient struct{ etcdclient.Client }

func (advertisingClient) Status(context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	return etcdcluster.EndpointStatus{Reachable: true, Healthy: true, MemberID: 1000}, nil, nil
}

func (advertisingClient) MemberList(context.Context) ([]etcdcluster.ListedMember, error) {
	var members []etcdcluster.ListedMember
	for i := range 64 {
		member := etcdcluster.ListedMember{ID: uint64(i), Name: fmt.Sprintf("old-%d", i)} // #nosec G115 -- 0 to 63
		for j := range 64 {
			member.ClientURLs = append(member.ClientURLs, fmt.Sprintf("http://old-%d.example.com:%d", i, 3000+j))
		}
		members = append(members, member)
	}

	return members, nil
}

func (advertisingClient) ClusterVersion(context.Context) (string, error) { return "", nil }

func (advertisingClient) IsAuthEnabled(context.Context) (bool, error) { return false, nil }

var _ = Describe("A hostile Etcd", func() {
	var (
		objects []client.Object
		read    []string
		members *blockingConnector
		timeout time.Duration
		allowed restrictions.Restrictions
	)

	BeforeEach(func() {
		objects, read, members, timeout = nil, nil, &blockingConnector{}, 100*time.Millisecond
		allowed = restrictions.Restrictions{}
	})

	external := func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1"} }
	joining := func(e *druidv1alpha1.Etcd) {
		e.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{"http://old.example.com:2379", "http://other.example.com:2379"}}
	}

	observeThrough := func(ctx context.Context, etcd *druidv1alpha1.Etcd, members etcdclient.Connector) etcdcluster.Observation {
		GinkgoHelper()
		scheme := runtime.NewScheme()
		Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
		Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if gvk := object.GetObjectKind().GroupVersionKind(); gvk.Kind == "Secret" {
					read = append(read, key.Name)
				} else if _, is := object.(*corev1.Secret); is {
					read = append(read, key.Name)
				}

				return c.Get(ctx, key, object, options...)
			},
		}).Build()
		o := &observer.Observer{Reader: c, APIReader: c, Etcd: members, MembersTimeout: timeout, Restrictions: allowed}

		return o.Observe(ctx, etcd, observer.Request{QueryEtcd: true, QueryExisting: true})
	}
	observe := func(ctx context.Context, etcd *druidv1alpha1.Etcd) etcdcluster.Observation {
		GinkgoHelper()

		return observeThrough(ctx, etcd, members)
	}
	// addPods adds 1000 pods of the Etcd.
	addPods := func(etcd *druidv1alpha1.Etcd) {
		for ordinal := range 1000 {
			pod := &corev1.Pod{Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.0.%d.%d", ordinal/250, ordinal%250)}}}}
			pod.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("test-%d", ordinal), Namespace: etcd.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test"}}
			objects = append(objects, pod)
		}
	}

	It("is not dialled, and no Secret that it names is read, where its spec is invalid", func(ctx SpecContext) {
		observe(ctx, fixture.Etcd(fixture.WithTLS(), fixture.WithStore("S3"), func(e *druidv1alpha1.Etcd) {
			e.Spec.Replicas, e.Spec.ExternallyManagedMemberAddresses = 2, []string{"10.0.0.1", "not a host name"}
		}))
		Expect(members.dialled).To(BeEmpty())
		Expect(read).To(BeEmpty())
	})

	DescribeTable("is dialled only at endpoints that the configuration allows, or that the last accepted generation names",
		func(ctx SpecContext, endpoints []string, isAccepted bool, override func(*druidv1alpha1.Etcd), dialled ...string) {
			allowed.AllowedEndpoints = endpoints
			etcd := fixture.Etcd(override)
			if isAccepted {
				annotations, err := state.State{Accepted: &state.Accepted{Generation: 1, Spec: &etcd.Spec}}.Encode()
				Expect(err).NotTo(HaveOccurred())
				objects = append(objects, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "druid-test", Namespace: etcd.Namespace, Annotations: annotations}})
			}
			observe(ctx, etcd)
			Expect(members.dialled).To(ConsistOf(dialled))
		},
		Entry("addresses of members, without restrictions", nil, false, external, "10.0.0.1:2379"),
		Entry("addresses of members, allowed", []string{"10.0.0.0/8"}, false, external, "10.0.0.1:2379"),
		Entry("addresses of members, forbidden", []string{}, false, external),
		Entry("addresses of members, forbidden and accepted before", []string{}, true, external, "10.0.0.1:2379"),
		Entry("client endpoints, without restrictions", nil, false, joining, "old.example.com:2379", "other.example.com:2379"),
		Entry("client endpoints, allowed", []string{"*.example.com"}, false, joining, "old.example.com:2379", "other.example.com:2379"),
		Entry("client endpoints, one of them forbidden", []string{"old.example.com"}, false, joining),
		Entry("client endpoints, forbidden and accepted before", []string{}, true, joining, "old.example.com:2379", "other.example.com:2379"),
	)

	It("is observed where its members run, though its newest spec is invalid", func(ctx SpecContext) {
		etcd := fixture.Etcd(func(e *druidv1alpha1.Etcd) { e.Spec.Backup.FullSnapshotSchedule = new("daily") })
		pod := &corev1.Pod{Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.7"}}}}
		pod.ObjectMeta = metav1.ObjectMeta{Name: "test-0", Namespace: etcd.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test"}}
		objects = append(objects, pod)
		observe(ctx, etcd)
		Expect(members.dialled).To(Equal([]string{"10.0.0.7:2379"}))
	})

	It("is known as slow by the duration of a request", func(ctx SpecContext) {
		recording, isSlow := observer.WithSlowRecorder(ctx)
		observer.RecordRequest(recording, 999*time.Millisecond)
		Expect(isSlow()).To(BeFalse())
		timeout = 1100 * time.Millisecond
		observe(recording, fixture.Etcd(func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1"} }))
		Expect(isSlow()).To(BeTrue())
	})

	It("with thousands of pods is dialled at a few of them, and not at all at the same time", func(ctx SpecContext) {
		etcd := fixture.Etcd()
		addPods(etcd)
		observed := observe(ctx, etcd)
		Expect(len(observed.Pods)).To(BeNumerically("<=", 32))
		Expect(len(members.dialled)).To(BeNumerically("<=", 32))
		Expect(members.peak).To(BeNumerically("<=", 8))
	})

	It("with a joined cluster of the maximum size is dialled at 82 addresses", func(ctx SpecContext) {
		etcd := fixture.Etcd()
		addPods(etcd)
		existing, joined := &druidv1alpha1.BootstrapWithExistingCluster{}, &druidv1alpha1.BootstrapWithExistingClusterStatus{}
		for i := range 10 {
			existing.ClientEndpoints = append(existing.ClientEndpoints, fmt.Sprintf("http://endpoint-%d.example.com:2379", i))
			existing.Members = append(existing.Members, druidv1alpha1.BootstrapExistingMember{Name: fmt.Sprintf("old-%d", i), PeerURLs: []string{"http://old.example.com:2380"}})
			joined.Members = append(joined.Members, druidv1alpha1.BootstrapJoinedMember{Name: fmt.Sprintf("old-%d", 10+i), PeerURLs: []string{"http://old.example.com:2380"}})
		}
		etcd.Spec.Etcd.BootstrapWithExistingCluster, etcd.Status.BootstrapWithExistingCluster = existing, joined
		connector := &advertisingConnector{dialled: sets.New[string]()}
		observeThrough(ctx, etcd, connector)
		Expect(connector.dialled).To(HaveLen(82), "32 pods, 10 client endpoints, and two client URLs for each of 20 members")
	})
})
