// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestSimulator(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "simulator Suite")
}

// newEtcd returns an Etcd without TLS that the operator accepts.
func newEtcd(replicas int32) *druidv1alpha1.Etcd {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Name, etcd.Namespace, etcd.UID, etcd.Generation = "main", "demo", "etcd-uid", 1
	etcd.Spec.Replicas, etcd.Spec.Labels, etcd.Spec.Etcd.EnableTLS = replicas, map[string]string{"app": "etcd"}, new(false)

	return etcd
}

// manifest renders an image.
func manifest(etcd *druidv1alpha1.Etcd, image string, replicas, size int32) simulator.Manifest {
	return simulator.Manifest{
		Rendering: etcdcluster.Rendering{
			Checksum: fmt.Sprintf("%s/%d/%d", image, replicas, size),
			Fixed:    etcdcluster.FixedFields{ClaimTemplates: []etcdcluster.ClaimTemplate{{Name: "main", Request: new(helper.StorageCapacity(etcd)).Value()}}},
		},
		Revision: fmt.Sprintf("%s/%d", image, min(size, 2)), Image: image, Replicas: replicas, ClusterSize: size, PeerPort: helper.PeerPort(etcd),
	}
}

// simulate reconciles until nothing changes, and returns the steps and the last stage.
func simulate(c *simulator.Cluster, image string) []string {
	GinkgoHelper()
	var steps []string
	defaults := state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: image}, "3.5": {EtcdWrapper: image}}}
	operator, acted := simulator.NewOperator(c, target.Config{AutoReconcile: true, Defaults: defaults}), false
	operator.Render = func(t target.Target, p plan.Plan, _ etcdcluster.Observation) (engine.Rendered, error) {
		return engine.Rendered{Rendering: manifest(t.Etcd, image, p.Replicas, p.ClusterSize).Rendering}, nil
	}
	operator.Manifest = func(t *target.Target, rendered engine.Rendered) simulator.Manifest {
		return manifest(t.Etcd, image, rendered.Plan.Replicas, rendered.Plan.ClusterSize)
	}
	operator.OnApply = func(*engine.Run, simulator.Manifest) { acted = true }
	operator.OnStep = func(_ *engine.Run, step plan.Step, _ string) func(error) {
		steps, acted = append(steps, plan.TraitsOf(step).Kind+" "+plan.MetaOf(step).Object), true

		return func(err error) { Expect(err).NotTo(HaveOccurred()) }
	}
	for idle := 0; idle < 30; idle++ {
		acted = false
		result := operator.Reconcile()
		if acted {
			idle = 0
		} else if p := result.Current().Plan; p.Outcome() == plan.OutcomeDone {
			return append(steps, string(p.Stage))
		}
		c.Tick()
	}
	Fail(fmt.Sprintf("it does not end: %v", steps))

	return nil
}
