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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

// Cluster is an in-memory Kubernetes cluster with one Etcd. In each Tick of one second, every controller reconciles at most once.
type Cluster struct {
	// Clock is the clock of all components.
	Clock *testclock.FakeClock
	// Etcd is the key of the only Etcd.
	Etcd client.ObjectKey
	// Violations lists actions of the operator that break an invariant.
	Violations []string
	// PodsCreated is the number of pods that the StatefulSet controller has created.
	PodsCreated int
	// owners are the UIDs of the owners of pods, by the UID of the pod, as the garbage collector saw them last.
	owners map[types.UID]types.UID
	// JobsCreated is the number of Jobs that the Job controller has started.
	JobsCreated int
	// MayApply decides whether the resource manager applies the payload in a Secret, like the embedded resource manager. Nil: it applies
	// all payloads.
	MayApply func(secret string) bool

	api  *API
	etcd *fake.Cluster
	// store is the backup store of the sidecars.
	store store
	// history is the history of the writes. Every restore begins another one.
	history history.Position
	// brokenImages are the images that cannot be pulled.
	brokenImages map[string]bool
	// memberIDs maps the name of a volume to the ID of the member whose data it holds.
	memberIDs map[string]uint64
	// external are the IDs of the members without a pod. It is never modified in place.
	external map[uint64]bool
	// catchUpTicks maps the ID of a learner to the number of ticks since it joined.
	catchUpTicks map[uint64]int
	// startSizes maps the UID of a pod to the cluster size that its sidecar read when it started.
	startSizes map[types.UID]int
	// counter is the source of member IDs and pod IPs.
	counter uint64
	// checkedTLS is the resource version at which the TLS handshakes were last checked.
	checkedTLS int64
}

// New returns a cluster with five nodes, the namespace demo, and the StorageClass expandable, which allows volume expansion.
func New(scheme *runtime.Scheme) *Cluster {
	k := &Cluster{
		Clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)),
		Etcd:  client.ObjectKey{Namespace: "demo", Name: "main"},
		etcd:  fake.NewCluster(0xc1), history: history.New(),
		brokenImages: map[string]bool{}, memberIDs: map[string]uint64{}, catchUpTicks: map[uint64]int{}, startSizes: map[types.UID]int{},
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
		Clock: testclock.NewFakeClock(k.Clock.Now()), Etcd: k.Etcd, PodsCreated: k.PodsCreated, JobsCreated: k.JobsCreated, Violations: slices.Clone(k.Violations),
		etcd: k.etcd.Clone(), counter: k.counter, external: k.external, store: k.store, history: k.history,
		brokenImages: maps.Clone(k.brokenImages), memberIDs: maps.Clone(k.memberIDs), catchUpTicks: maps.Clone(k.catchUpTicks), startSizes: maps.Clone(k.startSizes),
	}
	other.api = k.api.fork(other.now)
	return other
}

// State returns a string that changes with each write, with the etcd leader, and with the newest snapshots in the store.
func (k *Cluster) State() string {
	return fmt.Sprintf("%d %x %d", k.api.version, k.etcd.Leader(), k.store.Len())
}

// EtcdCluster returns the simulated etcd cluster.
func (k *Cluster) EtcdCluster() *fake.Cluster { return k.etcd }

// BreakImage prevents containers with the image from starting.
func (k *Cluster) BreakImage(image string) { k.brokenImages[image] = true }

// RemoveNode deletes a node. Its volumes are lost.
func (k *Cluster) RemoveNode(name string) {
	for _, node := range listOf[*corev1.Node](k) {
		if node.Name == name {
			k.deleteObject(node)
		}
	}
}

// Tick advances the clock by one second and runs all components except the operator. It returns true if they changed anything
// other than lease renewals.
func (k *Cluster) Tick() bool {
	k.Clock.Step(time.Second)
	changed := false
	for _, act := range []func() bool{
		k.resourceManager, k.garbageCollector, k.statefulSetController, k.jobController, k.claimController, k.scheduler, k.kubelets, k.sidecars, k.probes,
	} {
		changed = act() || changed
		k.connect()
	}
	k.renewLeases()
	k.checkTLS()
	return changed
}

// listOf returns the stored objects of a type without a copy, sorted by name. The caller must not modify them.
func listOf[T client.Object](k *Cluster) []T {
	var items []T
	for _, obj := range k.api.list(k.api.kindOf(newObject[T]())) {
		items = append(items, obj.(T))
	}
	return items
}

// getOrNil returns a stored object without a copy, or nil if it does not exist. The caller must not modify it.
func getOrNil[T client.Object](k *Cluster, name string) T {
	obj, err := k.api.get(k.api.kindOf(newObject[T]()), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: name})
	if err != nil {
		var none T
		return none
	}
	return obj.(T)
}

func newObject[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// change updates an object and its status. It returns true if the stored object differs afterwards.
func change[T client.Object](k *Cluster, obj T, do func(T)) bool {
	next := obj.DeepCopyObject().(T)
	do(next)
	status := reflect.New(reflect.TypeOf(next).Elem()).Interface().(T)
	reflect.ValueOf(status).Elem().Set(reflect.ValueOf(next).Elem()) // with the status, if there is one
	shareStatus(next, obj)
	isUpdated, isStatusUpdated := !equality.Semantic.DeepEqual(obj, next), !isStatusEqual(obj, status)
	if isUpdated {
		if err := k.api.replace(next, false); err != nil {
			return false
		}
		status.SetResourceVersion("")
	}
	if isStatusUpdated {
		err := k.api.replace(status, true) // it fails if the update removed the last finalizer
		return isUpdated || err == nil
	}
	return isUpdated
}

// isStatusEqual returns true if two objects have the same status, or none.
func isStatusEqual(a, b client.Object) bool {
	status := fieldOf(a, "Status")
	return !status.IsValid() || equality.Semantic.DeepEqual(status.Interface(), fieldOf(b, "Status").Interface())
}

// deleteObject deletes an object without preconditions. It returns true if the object was not being deleted yet.
func (k *Cluster) deleteObject(obj client.Object) bool {
	if obj.GetDeletionTimestamp() != nil {
		return false
	}
	return k.api.remove(k.api.kindOf(obj), client.ObjectKeyFromObject(obj), client.DeleteOptions{}) == nil
}

// EtcdObject returns the stored Etcd without a copy, or nil if it does not exist.
func (k *Cluster) EtcdObject() *druidv1alpha1.Etcd {
	return getOrNil[*druidv1alpha1.Etcd](k, k.Etcd.Name)
}
