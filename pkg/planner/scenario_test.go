// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

// scenario is a simulated cluster, an operator that reconciles it (see reconcile_test.go), and the trace of both. Checks of what the operator
// promises are in invariants_test.go.
type scenario struct {
	*simulator.Cluster

	// reconcile plays the etcd controller once. True: it changed something.
	reconcile func() bool
	// image of the container etcd that is rendered.
	image string
	// suspended is true while no annotation requests the reconciliation of the spec.
	suspended bool
	// idleTicks is the number of ticks without a change after which run ends.
	idleTicks int

	trace []string
	last  string
	// steps counts the executed steps by their kinds.
	steps      map[string]int
	invariants invariants
}

// newSingle returns the scenario of a single member, in which one component acts in each tick.
func newSingle(change ...func(*druidv1alpha1.Etcd)) *scenario {
	s := newScenario(1, change...)
	s.reconcile, s.Sequential, s.idleTicks = s.reconcileSingle, true, 0
	objects := 0
	s.NewUID = func(kind string) types.UID { // claims are not numbered
		if kind != "claim" {
			objects++
		}

		return types.UID(fmt.Sprintf("%s-%d", kind, objects))
	}

	return s
}

// newScenario returns the scenario of a cluster that was never rendered.
func newScenario(replicas int32, change ...func(*druidv1alpha1.Etcd)) *scenario {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Name, etcd.Namespace, etcd.UID, etcd.Generation = "main", "demo", "etcd-uid", 1
	for _, apply := range change {
		apply(etcd)
	}
	etcd.Spec.Replicas = replicas
	s := &scenario{Cluster: simulator.New(etcd, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), image: "v1", idleTicks: 30, steps: map[string]int{}}
	s.reconcile = s.reconcileMembers

	return s
}

func withStore(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "demo--main"}
}

func withPeerTLS(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{}
}

// manifestFor renders a plan.
func (s *scenario) manifestFor(p plan.Plan) simulator.Manifest {
	peerTLS, port := s.peerTLS(), helper.PeerPort(s.effective())
	m := simulator.Manifest{
		Rendering: etcdcluster.Rendering{
			Checksum: fmt.Sprintf("%s/%d/%d/%t/%d", s.image, p.Replicas, p.ClusterSize, peerTLS, port),
			Fixed: etcdcluster.FixedFields{
				ServiceName: helper.PeerServiceName(s.Etcd), PodManagementPolicy: "Parallel", Selector: helper.DefaultLabels(s.Etcd),
				ClaimTemplates: []etcdcluster.ClaimTemplate{{Name: "main", Request: new(helper.StorageCapacity(s.Etcd)).Value(), AccessModes: []string{"ReadWriteOnce"}}},
			},
		},
		Revision: fmt.Sprintf("rev-%s-%d-%t-%d", s.image, min(p.ClusterSize, 3), peerTLS, port),
		Image:    s.image, Replicas: p.Replicas, ClusterSize: p.ClusterSize, PeerPort: port,
	}
	if peerTLS {
		m.TLS = etcdcluster.MountedTLS{PeerCA: "peer-ca", Peer: "peer-server"}
	}
	if helper.IsStoreConfigured(s.Etcd) {
		m.Store = "the store"
	}

	return m
}

// effective returns the Etcd that is planned for and rendered.
func (s *scenario) effective() *druidv1alpha1.Etcd {
	return peers.WithPinnedPort(s.Etcd, s.Objects, s.Now())
}

// peerTLS returns whether the rendered members have peer certificates.
func (s *scenario) peerTLS() bool {
	if pinned := peers.PinnedTLS(s.Etcd, s.Objects, s.Now()); pinned != nil {
		return *pinned
	}

	return helper.PeerTLS(s.Etcd) != nil
}

// run reconciles until nothing changes any more.
func (s *scenario) run() {
	GinkgoHelper()
	s.runFor(200)
}

func (s *scenario) runFor(ticks int) {
	idle := 0
	for range ticks {
		before := s.last
		reconciled := s.reconcile()
		s.consumeAnnotation()
		changed := s.tick()
		if reconciled || changed || s.last != before {
			idle = 0
		} else if idle++; idle > s.idleTicks {
			return
		}
	}
}

// runUntil reconciles until a condition holds.
func (s *scenario) runUntil(holds func() bool) {
	GinkgoHelper()
	for range 200 {
		if holds() {
			return
		}
		s.runFor(1)
	}
	Fail("it never holds:\n" + strings.Join(s.trace, "\n"))
}

// inject records an external change, and makes it.
func (s *scenario) inject(what string, change func()) {
	s.note("* %s", what)
	change()
}

func (s *scenario) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if line == s.last {
		return
	}
	s.last = line
	s.trace = append(s.trace, s.Now().Format("15:04:05")+"  "+line)
}

// resetTrace starts a new trace.
func (s *scenario) resetTrace() { s.trace, s.last, s.steps = nil, "", map[string]int{} }

// expectGolden compares the trace with testdata/<name>.golden.txt; UPDATE_GOLDEN=1 writes it instead.
func (s *scenario) expectGolden(name string) {
	GinkgoHelper()
	path := filepath.Join("testdata", name+".golden.txt")
	trace := strings.Join(slices.Concat(s.trace, []string{""}), "\n")
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		Expect(os.MkdirAll("testdata", 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(trace), 0o600)).To(Succeed())
	}
	golden, err := os.ReadFile(path) // #nosec G304 -- a name of this package's tests
	Expect(err).NotTo(HaveOccurred())
	Expect(trace).To(Equal(string(golden)))
}
