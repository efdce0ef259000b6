// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package world

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

// World is a seed with one Etcd. Each Tick is a second, in which every actor does at most one round of its work.
type World struct {
	// Clock of everybody.
	Clock *testclock.FakeClock
	// Etcd is the key of the only Etcd.
	Etcd client.ObjectKey
	// Violations are broken promises: what the operator must never do.
	Violations []string
	// PodsMade counts how many pods were made.
	PodsMade int
	// JobsMade counts how many Jobs were made.
	JobsMade int

	api     *API
	cluster *fake.Cluster
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
	// trusted is the state of the API server in which everybody was last asked whom they trust.
	trusted int64
}

// New returns a seed of five nodes with one namespace, demo, and a StorageClass whose volumes can grow, expandable.
func New(scheme *runtime.Scheme) *World {
	w := &World{
		Clock:   testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)),
		Etcd:    client.ObjectKey{Namespace: "demo", Name: "main"},
		cluster: fake.NewCluster(0xc1),
		broken:  map[string]bool{}, data: map[string]uint64{}, caught: map[uint64]int{}, sizes: map[types.UID]int{},
	}
	w.api = newAPI(scheme, w.now)
	w.mustCreate(&corev1.Namespace{}, "demo")
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		node := &corev1.Node{}
		node.Labels = map[string]string{corev1.LabelHostname: name}
		w.mustCreate(node, name)
	}
	w.mustCreate(&storagev1.StorageClass{AllowVolumeExpansion: new(true)}, "expandable")
	return w
}

func (w *World) now() time.Time { return w.Clock.Now() }

func (w *World) mustCreate(obj client.Object, name string) {
	obj.SetName(name)
	if err := w.api.create(obj, false); err != nil {
		panic(err)
	}
}

// Fork returns a world that is as this one is now, and goes its own way from here.
func (w *World) Fork() *World {
	other := &World{
		Clock: testclock.NewFakeClock(w.Clock.Now()), Etcd: w.Etcd, PodsMade: w.PodsMade, JobsMade: w.JobsMade, Violations: slices.Clone(w.Violations),
		cluster: w.cluster.Clone(), counter: w.counter, store: w.store,
		broken: maps.Clone(w.broken), data: maps.Clone(w.data), caught: maps.Clone(w.caught), sizes: maps.Clone(w.sizes),
	}
	other.api = w.api.fork(other.now)
	return other
}

// State changes with everything that is written, with the leader of the cluster, and with the newest snapshot in the store.
func (w *World) State() string {
	return fmt.Sprintf("%d %x %p", w.api.version, w.cluster.Leader(), w.store.full)
}

// Cluster is the etcd cluster.
func (w *World) Cluster() *fake.Cluster { return w.cluster }

// BreakImage keeps containers with an image from starting.
func (w *World) BreakImage(image string) { w.broken[image] = true }

// RemoveNode takes a node away for good, with the volumes on it.
func (w *World) RemoveNode(name string) {
	for _, node := range every[*corev1.Node](w) {
		if node.Name == name {
			w.drop(node)
		}
	}
}

// Tick lets a second pass, in which everybody but the operator acts. It returns whether anything happened, other than that
// leases were renewed.
func (w *World) Tick() bool {
	w.Clock.Step(time.Second)
	happened := false
	for _, act := range []func() bool{
		w.resourceManager, w.garbageCollector, w.statefulSetController, w.jobController, w.claimController, w.scheduler, w.kubelets, w.sidecars, w.probes,
	} {
		happened = act() || happened
		w.connect()
	}
	w.renewLeases()
	w.trust()
	return happened
}

// every returns the objects of a type themselves, which nobody may change, sorted by name.
func every[T client.Object](w *World) []T {
	var items []T
	for _, obj := range w.api.list(w.api.kindOf(zero[T]())) {
		items = append(items, obj.(T))
	}
	return items
}

// one returns an object itself; nil when there is none.
func one[T client.Object](w *World, name string) T {
	obj, err := w.api.get(w.api.kindOf(zero[T]()), client.ObjectKey{Namespace: w.Etcd.Namespace, Name: name})
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
func change[T client.Object](w *World, obj T, do func(T)) bool {
	next := obj.DeepCopyObject().(T)
	do(next)
	if equality.Semantic.DeepEqual(obj, next) {
		return false
	}
	status := next.DeepCopyObject().(T)
	if err := w.api.replace(next, false); err != nil {
		return false
	}
	status.SetResourceVersion("")
	_ = w.api.replace(status, true) // gone with its last finalizer
	return true
}

// drop deletes an object as its owner does.
func (w *World) drop(obj client.Object) bool {
	if obj.GetDeletionTimestamp() != nil {
		return false
	}
	return w.api.remove(w.api.kindOf(obj), client.ObjectKeyFromObject(obj), client.DeleteOptions{}) == nil
}

// EtcdObject is the Etcd itself; nil when there is none.
func (w *World) EtcdObject() *druidv1alpha1.Etcd { return one[*druidv1alpha1.Etcd](w, w.Etcd.Name) }
