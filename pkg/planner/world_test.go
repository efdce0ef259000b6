// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// world is a simulated seed with one Etcd. Each tick of a few seconds every actor but ours does at most one thing: the
// resource manager applies, the StatefulSet controller makes and stops pods, pods become ready, the sidecar takes snapshots.
// Our own part (pass) is played as the etcd controller plays it.
type world struct {
	etcd    *druidv1alpha1.Etcd
	now     time.Time
	seen    etcdcluster.Observation
	written *manifest // what the ManagedResource holds
	applied *manifest // what the resource manager has applied of it
	image   string
	// brokenImages never become ready.
	brokenImages map[string]bool
	// storeDown keeps the sidecar from taking snapshots, and from starting etcd.
	storeDown bool
	// snapshotTakes is how long it takes to take a full snapshot.
	snapshotTakes time.Duration

	nextUID int
	trace   []string
	last    string
}

// manifest stands for everything rendered.
type manifest struct {
	image       string
	replicas    int32
	clusterSize int32
	peerTLS     bool
	peerPort    int32
	fixed       etcdcluster.FixedFields
}

func (m manifest) rendering() etcdcluster.Rendering {
	return etcdcluster.Rendering{Checksum: fmt.Sprintf("%s/%d/%d/%t/%d", m.image, m.replicas, m.clusterSize, m.peerTLS, m.peerPort), Fixed: m.fixed}
}

// revision changes with what pods are made of.
func (m manifest) revision() string {
	revision := fmt.Sprintf("rev-%s-%d", m.image, min(m.clusterSize, 3))
	if m.peerTLS {
		revision += "-tls"
	}
	revision += fmt.Sprintf("-%d", m.peerPort)

	return revision
}

// tls is what pods mount for connections between members.
func (m manifest) tls() etcdcluster.MountedTLS {
	if m.peerTLS {
		return etcdcluster.MountedTLS{PeerCA: "peer-ca", Peer: "peer-server"}
	}

	return etcdcluster.MountedTLS{}
}

func newWorld(change ...func(*druidv1alpha1.Etcd)) *world {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Name, etcd.Namespace, etcd.UID, etcd.Generation = "main", "demo", "etcd-uid", 1
	etcd.Spec.Replicas = 1
	for _, apply := range change {
		apply(etcd)
	}
	w := &world{etcd: etcd, now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), image: "v1", brokenImages: map[string]bool{}}
	w.seen.ManagedResource.Name = "druid-main"
	w.seen.Claims = []etcdcluster.Claim{{Name: "main-main-0"}}

	return w
}

func withStore(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "demo--main"}
}

func (w *world) uid(kind string) types.UID {
	w.nextUID++

	return types.UID(fmt.Sprintf("%s-%d", kind, w.nextUID))
}

func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if line == w.last {
		return
	}
	w.last = line
	w.trace = append(w.trace, w.now.Format("15:04:05")+"  "+line)
}

// event notes what the outside world does, and does it.
func (w *world) event(what string, do func()) {
	w.note("* %s", what)
	do()
}

// run lets the world go on until nothing is left to do and our plan is done or cannot go on, and notes every change of plan.
func (w *world) run() {
	for range 40 {
		before := w.last
		acted := w.pass()
		moved := w.tick()
		if !acted && !moved && w.last == before {
			return
		}
	}
	w.note("! does not come to rest")
}

// pass plays our controller once; true when it wrote something.
func (w *world) pass() bool {
	p := planner.For(w.etcd, w.seen, w.now)
	wanted := manifest{image: w.image, replicas: p.Replicas, clusterSize: p.ClusterSize, fixed: w.fixed()}
	isNew := p.Render && (w.written == nil || w.written.rendering().Checksum != wanted.rendering().Checksum || len(w.written.fixed.Differences(wanted.fixed)) > 0)
	seen := w.seen
	seen.ManagedResource.GenerationObserved = seen.ManagedResource.GenerationObserved && !isNew
	p = planner.Gate(p, wanted.rendering(), seen)
	w.noteOf(p)
	if isNew {
		w.write(wanted, p)
		w.seen.State.FinalSnapshot = p.FinalSnapshot

		return true
	}
	if p.Step != nil {
		w.do(p.Step)

		return true
	}

	return false
}

func (w *world) noteOf(p plan.Plan) {
	line := fmt.Sprintf("%-20s render=%-5t replicas=%d size=%d | %s", p.Stage, p.Render, p.Replicas, p.ClusterSize, p.Reason)
	switch p.Outcome() {
	case plan.OutcomeRefused:
		line += " | refused: " + p.Refusal.Error()
	case plan.OutcomeStep:
		line += " | step: " + plan.Trace(p.Step)
	case plan.OutcomeGrow:
		line += fmt.Sprintf(" | grows to replicas=%d size=%d", p.Growth.Replicas, p.Growth.ClusterSize)
	case plan.OutcomeWaiting:
		line += " | waits for " + p.WaitsFor
	case plan.OutcomeHindered:
		line += " | done but for what cannot be"
	case plan.OutcomeDone:
		line += " | done"
	}
	if p.Hindered != nil {
		line += " | hindered: " + p.Hindered.Error()
	}
	w.note("%s", line)
}

func (w *world) fixed() etcdcluster.FixedFields {
	return etcdcluster.FixedFields{
		ServiceName: "main-peer", PodManagementPolicy: "Parallel", Selector: helper.DefaultLabels(w.etcd),
		ClaimTemplates: []etcdcluster.ClaimTemplate{{Name: "main", Request: new(helper.StorageCapacity(w.etcd)).Value(), AccessModes: []string{"ReadWriteOnce"}}},
	}
}

func (w *world) write(wanted manifest, p plan.Plan) {
	w.note("> ManagedResource written: image %s, replicas %d, size %d", wanted.image, wanted.replicas, wanted.clusterSize)
	w.written = &wanted
	managedResource := &w.seen.ManagedResource
	if !managedResource.Exists {
		managedResource.Exists, managedResource.UID = true, w.uid("mr")
	}
	managedResource.GenerationObserved = false
	if wanted.replicas > 0 {
		w.seen.State.Size = planner.SizeToPersist(p, w.seen)
	}
}

// do carries out a step, as far as its precondition holds.
func (w *world) do(step plan.Step) {
	switch step := step.(type) {
	case plan.DeletePod:
		for i := range w.seen.Pods {
			if pod := &w.seen.Pods[i]; pod.Name == step.Object && pod.UID == step.UID {
				pod.Deleting, pod.Ready, pod.ContainersReady = true, false, false
			}
		}
	case plan.RecreateStatefulSet:
		Expect(step.UID).To(Equal(w.seen.StatefulSet.UID))
		w.seen.StatefulSet = etcdcluster.StatefulSet{}
		w.seen.ManagedResource.ReconcileRequested = true
	case plan.RequestReconcile:
		w.seen.ManagedResource.ReconcileRequested = true
	case plan.TakeSnapshot:
		w.seen.SnapshotCalls.Running = true
	case plan.EvictPod, plan.MoveLeader, plan.PromoteMember, plan.UpdatePeerURLs, plan.ReplaceClaim, plan.ResizeClaim, plan.DeleteClaim, plan.VerifyRestore, plan.DeleteRestoreJob, plan.ResetLease:
		Fail("a cluster of one member has no step " + plan.Trace(step))
	}
}

// endSnapshot ends the call that takes a full snapshot, as it ends where somebody leads or not. The next call is another
// generation's after respec.
func (w *world) endSnapshot(leads bool) bool {
	calls := &w.seen.SnapshotCalls
	if !calls.Running {
		return false
	}
	switch {
	case !leads:
		*calls = calls.Ended(nil, errors.New("no member leads"), w.now)
	case w.storeDown:
		*calls = calls.Ended(nil, errors.New("the store does not answer"), w.now)
	default:
		asked := w.now
		w.now = w.now.Add(w.snapshotTakes)
		*calls = calls.Ended(&state.VerifiedSnapshot{Name: "Full-00000000-00000042", Revision: 42, At: asked}, nil, w.now)
	}

	return true
}

// respec makes the spec another generation, with its own snapshot.
func (w *world) respec() {
	w.etcd.Generation++
	w.seen.SnapshotCalls = etcdcluster.SnapshotCalls{}
}

// tick lets the others act and time pass; true when anything changed.
func (w *world) tick() bool {
	w.now = w.now.Add(5 * time.Second)
	leads := func() bool { return w.endSnapshot(len(w.seen.Pods) > 0 && w.seen.Pods[0].Ready) }
	for _, act := range []func() bool{leads, w.resourceManager, w.statefulSetController, w.kubelet} {
		if act() {
			return true
		}
	}
	w.sidecar()

	return false
}

func (w *world) resourceManager() bool {
	managedResource, statefulSet := &w.seen.ManagedResource, &w.seen.StatefulSet
	if w.written == nil || managedResource.GenerationObserved && !managedResource.ReconcileRequested {
		return false
	}
	managedResource.GenerationObserved, managedResource.ReconcileRequested = true, false
	managedResource.Applied = etcdcluster.ConditionFact{Status: "True"}
	w.applied = w.written
	if !statefulSet.Exists {
		*statefulSet = etcdcluster.StatefulSet{Exists: true, Name: "main", UID: w.uid("sts"), OwnerUID: w.etcd.UID, Rendering: w.applied.rendering()}
	}
	claims := statefulSet.Rendering.Fixed.ClaimTemplates // the resource manager keeps those of the live object
	statefulSet.Rendering = w.applied.rendering()
	statefulSet.Rendering.Fixed.ClaimTemplates = claims
	statefulSet.SpecReplicas = w.applied.replicas
	statefulSet.TLS, statefulSet.PeerPort, statefulSet.HasPreStopHook = w.applied.tls(), w.applied.peerPort, w.applied.clusterSize > 1
	statefulSet.Generation++

	return true
}

func (w *world) statefulSetController() bool {
	statefulSet := &w.seen.StatefulSet
	if !statefulSet.Exists {
		return false
	}
	if statefulSet.ObservedGeneration != statefulSet.Generation {
		statefulSet.ObservedGeneration, statefulSet.UpdateRevision = statefulSet.Generation, "rev-"+w.applied.image

		return true
	}
	switch {
	case len(w.seen.Pods) > 0 && w.seen.Pods[0].Deleting:
		w.seen.Pods = nil
	case len(w.seen.Pods) > 0 && statefulSet.SpecReplicas == 0:
		w.seen.Pods[0].Deleting, w.seen.Pods[0].Ready = true, false
	case len(w.seen.Pods) == 0 && statefulSet.SpecReplicas > 0:
		w.seen.Claims[0].Exists = true
		w.seen.Pods = []etcdcluster.Pod{{Name: "main-0", UID: w.uid("pod"), RevisionHash: statefulSet.UpdateRevision, CreationTime: w.now,
			Containers: []etcdcluster.Container{{Name: "etcd", Image: w.applied.image}, {Name: "backup-restore"}}}}
	default:
		return false
	}

	return true
}

func (w *world) kubelet() bool {
	for i := range w.seen.Pods {
		pod := &w.seen.Pods[i]
		container := &pod.Containers[0]
		switch {
		case pod.Deleting || pod.Ready:
		case w.brokenImages[container.Image]:
			was := container.Reason
			container.State, container.Reason = etcdcluster.ContainerWaiting, "ImagePullBackOff"

			return was == ""
		case !w.storeDown || container.State == etcdcluster.ContainerRunning: // etcd that runs does not need the store
			pod.Ready, pod.ContainersReady, container.State = true, true, etcdcluster.ContainerRunning
			pod.ReadyChangedAt = w.now

			return true
		}
	}

	return false
}

// notReady makes the pod of the only member not ready, whose etcd is in the state from now on.
func (w *world) notReady(etcd etcdcluster.ContainerState) {
	pod := &w.seen.Pods[0]
	pod.Ready, pod.ContainersReady, pod.ReadyChangedAt, pod.Containers[0].State = false, false, w.now, etcd
}

func (w *world) sidecar() {
	if !helper.IsStoreConfigured(w.etcd) || w.storeDown {
		return
	}
	if len(w.seen.Pods) > 0 && w.seen.Pods[0].Ready {
		w.seen.FullSnapshotLease = etcdcluster.Lease{Exists: true, Name: "main-full-snap", RenewTime: w.now}
		w.seen.DeltaSnapshotLease = etcdcluster.Lease{Exists: true, Name: "main-delta-snap", RenewTime: w.now}
	}
}

// expectGolden compares the trace with testdata/<name>.golden.txt; UPDATE_GOLDEN=1 writes it instead.
func (w *world) expectGolden(name string) {
	GinkgoHelper()
	path := filepath.Join("testdata", name+".golden.txt")
	trace := strings.Join(slices.Concat(w.trace, []string{""}), "\n")
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		Expect(os.MkdirAll("testdata", 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(trace), 0o600)).To(Succeed())
	}
	golden, err := os.ReadFile(path) // #nosec G304 -- a name of this package's tests
	Expect(err).NotTo(HaveOccurred())
	Expect(trace).To(Equal(string(golden)))
}
