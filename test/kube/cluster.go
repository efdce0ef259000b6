// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
)

// Cluster is an in-memory Kubernetes cluster with one Etcd. Each Tick lasts a second, in which every controller reconciles at most once.
type Cluster struct {
	// Clock of all components.
	Clock *testclock.FakeClock
	// Etcd is the key of the only Etcd.
	Etcd client.ObjectKey
	// Violations are broken promises: what the operator must never do.
	Violations []string
	// PodsMade counts how many pods were made.
	PodsMade int
	// JobsMade counts how many Jobs were made.
	JobsMade int

	api  *API
	etcd *fake.Cluster
	// store is where the sidecars store snapshots.
	store store
	// broken are images that never start.
	broken map[string]bool
	// data says whose data a volume holds, by the name of the volume.
	data map[string]uint64
	// caught counts the ticks that a learner has had to catch up.
	caught map[uint64]int
	// sizes are the cluster sizes that sidecars read when they started, by the UIDs of their pods.
	sizes map[types.UID]int
	// counter numbers members and addresses.
	counter uint64
	// trusted is the version of the API at the last check of the TLS handshakes.
	trusted int64
}

// New returns a seed of five nodes with one namespace, demo, and a StorageClass with volume expansion, expandable.
func New(scheme *runtime.Scheme) *Cluster {
	k := &Cluster{
		Clock:  testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)),
		Etcd:   client.ObjectKey{Namespace: "demo", Name: "main"},
		etcd:   fake.NewCluster(0xc1),
		broken: map[string]bool{}, data: map[string]uint64{}, caught: map[uint64]int{}, sizes: map[types.UID]int{},
	}
	k.api = newAPI(scheme, k.now)
	k.mustCreate(&corev1.Namespace{}, "demo")
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		node := &corev1.Node{}
		node.Labels = map[string]string{corev1.LabelHostname: name}
		k.mustCreate(node, name)
	}
	k.mustCreate(&storagev1.StorageClass{AllowVolumeExpansion: new(true)}, "expandable")
	return k
}

func (k *Cluster) now() time.Time { return k.Clock.Now() }

func (k *Cluster) mustCreate(obj client.Object, name string) {
	obj.SetName(name)
	if err := k.api.create(obj, false); err != nil {
		panic(err)
	}
}

// Fork returns a copy of the cluster. Later changes of one do not affect the other.
func (k *Cluster) Fork() *Cluster {
	other := &Cluster{
		Clock: testclock.NewFakeClock(k.Clock.Now()), Etcd: k.Etcd, PodsMade: k.PodsMade, JobsMade: k.JobsMade, Violations: slices.Clone(k.Violations),
		etcd: k.etcd.Clone(), counter: k.counter, store: k.store,
		broken: maps.Clone(k.broken), data: maps.Clone(k.data), caught: maps.Clone(k.caught), sizes: maps.Clone(k.sizes),
	}
	other.api = k.api.fork(other.now)
	return other
}

// State changes with everything that is written, with the leader of the cluster, and with the newest snapshot in the store.
func (k *Cluster) State() string {
	return fmt.Sprintf("%d %x %p", k.api.version, k.etcd.Leader(), k.store.full)
}

// EtcdCluster returns the members and their data.
func (k *Cluster) EtcdCluster() *fake.Cluster { return k.etcd }

// BreakImage keeps containers with an image from starting.
func (k *Cluster) BreakImage(image string) { k.broken[image] = true }

// RemoveNode takes a node away for good, with the volumes on it.
func (k *Cluster) RemoveNode(name string) {
	for _, node := range every[*corev1.Node](k) {
		if node.Name == name {
			k.drop(node)
		}
	}
}

// Tick advances the clock by a second, in which all components except the operator act. It returns whether anything
// changed except renewed leases.
func (k *Cluster) Tick() bool {
	k.Clock.Step(time.Second)
	happened := false
	for _, act := range []func() bool{
		k.resourceManager, k.garbageCollector, k.statefulSetController, k.jobController, k.claimController, k.scheduler, k.kubelets, k.sidecars, k.probes,
	} {
		happened = act() || happened
		k.connect()
	}
	k.renewLeases()
	k.checkTLS()
	return happened
}

// every returns the objects of a type themselves, sorted by name. The caller must not change them.
func every[T client.Object](k *Cluster) []T {
	var items []T
	for _, obj := range k.api.list(k.api.kindOf(zero[T]())) {
		items = append(items, obj.(T))
	}
	return items
}

// one returns an object itself; nil when there is none.
func one[T client.Object](k *Cluster, name string) T {
	obj, err := k.api.get(k.api.kindOf(zero[T]()), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: name})
	if err != nil {
		var none T
		return none
	}
	return obj.(T)
}

func zero[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// change changes an object, status and all. It returns whether that made a difference.
func change[T client.Object](k *Cluster, obj T, do func(T)) bool {
	next := obj.DeepCopyObject().(T)
	do(next)
	if equality.Semantic.DeepEqual(obj, next) {
		return false
	}
	status := next.DeepCopyObject().(T)
	if err := k.api.replace(next, false); err != nil {
		return false
	}
	status.SetResourceVersion("")
	_ = k.api.replace(status, true) // gone with its last finalizer
	return true
}

// drop deletes an object as its owner does.
func (k *Cluster) drop(obj client.Object) bool {
	if obj.GetDeletionTimestamp() != nil {
		return false
	}
	return k.api.remove(k.api.kindOf(obj), client.ObjectKeyFromObject(obj), client.DeleteOptions{}) == nil
}

// EtcdObject is the Etcd itself; nil when there is none.
func (k *Cluster) EtcdObject() *druidv1alpha1.Etcd { return one[*druidv1alpha1.Etcd](k, k.Etcd.Name) }
