// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// scenario is a simulated cluster, an operator that reconciles it (see reconcile_test.go), and the trace of both. Checks of what the operator
// promises are in invariants_test.go.
type scenario struct {
	*simulator.Cluster

	operator *simulator.Operator
	// result is that of the last reconciliation.
	result engine.Result
	// acted is true if the last reconciliation wrote manifests or executed a step.
	acted bool
	// requested is the newest generation whose rollout was requested.
	requested int64
	// repairs counts the steps that repaired the cluster while no generation could be reconciled.
	repairs int
	// image of the container etcd with which the operator renders a generation that it accepts from now on.
	image string
	// isKilled is true while the operator does not run.
	isKilled bool
	// reconciledAt is when the operator reconciled last.
	reconciledAt time.Time
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
	s.Sequential, s.idleTicks = true, 0
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
	etcd.Spec.Labels = map[string]string{"app": "etcd"}
	etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
		TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "ca"}},
		ServerTLSSecretRef: corev1.SecretReference{Name: "server"}, ClientTLSSecretRef: corev1.SecretReference{Name: "client"},
	}
	for _, apply := range change {
		apply(etcd)
	}
	etcd.Spec.Replicas = replicas
	s := &scenario{Cluster: simulator.New(etcd, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), image: "v1", idleTicks: 30, steps: map[string]int{}}
	s.operator = s.newOperator()

	return s
}

func withStore(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
		Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: "demo--main",
		SecretRef: &corev1.SecretReference{Name: "store"},
	}
}

func withPeerTLS(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{TLSConfig: druidv1alpha1.TLSConfig{
		TLSCASecretRef:     druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "peer-ca"}},
		ServerTLSSecretRef: corev1.SecretReference{Name: "peer-server"},
	}}
	delete(etcd.Annotations, druidv1alpha1.PeerTLSAnnotation)
}

func withoutPeerTLS(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.PeerUrlTLS = nil
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.PeerTLSAnnotation, druidv1alpha1.PeerTLSOff)
}

// manifestFor renders an accepted generation under a plan, with the cluster that the Etcd joins.
func manifestFor(etcd *druidv1alpha1.Etcd, accepted *state.Accepted, p plan.Plan, existing *druidv1alpha1.BootstrapWithExistingCluster) simulator.Manifest {
	image, port, podSize := accepted.Defaults.ImagesOf(p.EtcdVersion).EtcdWrapper, helper.PeerPort(etcd), cmp.Or(p.PodSize, p.ClusterSize)
	var tls etcdcluster.MountedTLS
	if peer := helper.PeerTLS(etcd); peer != nil {
		tls = etcdcluster.MountedTLS{PeerCA: peer.TLSCASecretRef.Name, Peer: peer.ServerTLSSecretRef.Name}
	}
	m := simulator.Manifest{
		Rendering: etcdcluster.Rendering{
			Checksum: fmt.Sprintf("%s/%s/%d/%d/%s/%d/%v/%d/%s/%s", image, p.EtcdVersion, p.Replicas, p.ClusterSize, tls, port, simulator.AdvertisedIn(p), podSize, ordinalIn(p.ServiceMember()), ptr.Deref(etcd.Spec.StorageClass, "")),
			Fixed: etcdcluster.FixedFields{
				ServiceName: helper.PeerServiceName(etcd), PodManagementPolicy: "Parallel", Selector: helper.DefaultLabels(etcd),
				ClaimTemplates: []etcdcluster.ClaimTemplate{{Name: "main", StorageClass: etcd.Spec.StorageClass, Request: new(helper.StorageCapacity(etcd)).Value(), AccessModes: []string{"ReadWriteOnce"}}},
			},
		},
		Revision: fmt.Sprintf("rev-%s-%s-%d-%s-%d", image, p.EtcdVersion, min(podSize, 3), tls, port),
		Image:    image, EtcdVersion: p.EtcdVersion, Replicas: p.Replicas, ClusterSize: p.ClusterSize, PeerPort: port, TLS: tls,
		Advertised: simulator.AdvertisedIn(p), ServiceMember: p.ServiceMember(), HasPreStopHook: podSize > 1,
	}
	if helper.IsStoreConfigured(etcd) {
		m.Store = "the store"
	}
	if existing != nil {
		rendered := fmt.Sprintf("-%d-%s", len(existing.Members), strings.Join(existing.ClientEndpoints, "-"))
		m.Rendering.Checksum, m.Revision, m.ClusterSize = m.Rendering.Checksum+rendered, m.Revision+rendered, m.ClusterSize+int32(len(existing.Members)) // #nosec G115 -- a few members
	}

	if m.ExcludesPods = p.ExcludesPods; m.ExcludesPods {
		m.Rendering.Checksum += "-excluding"
	}

	return m
}

// ordinalIn is an ordinal in a checksum. Empty: there is none.
func ordinalIn(ordinal *int32) string {
	if ordinal == nil {
		return ""
	}

	return fmt.Sprint(*ordinal)
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

// inject records an external change, and makes it. A change of the spec or of the image is a new generation.
func (s *scenario) inject(what string, change func()) {
	s.note("* %s", what)
	s.change(change)
}

// change makes an external change. A change of the spec or of the image is a new generation.
func (s *scenario) change(change func()) {
	spec, image, generation := s.Etcd.Spec.DeepCopy(), s.image, s.Etcd.Generation
	change()
	if s.Etcd.Generation == generation && (s.image != image || !apiequality.Semantic.DeepEqual(s.Etcd.Spec, *spec)) {
		s.IncrementGeneration()
	}
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
