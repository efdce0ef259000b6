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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestSimulator(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "simulator Suite")
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

// simulate plans until nothing changes, and returns the steps and the last stage.
func simulate(c *simulator.Cluster, image string) []string {
	GinkgoHelper()
	var steps []string
	for idle := 0; idle < 30; idle++ {
		o := c.Observe()
		p := planner.For(c.Etcd, o, c.Now())
		p = planner.Gate(p, manifest(c.Etcd, image, p.Replicas, p.ClusterSize).Rendering, o)
		if p.Outcome() == plan.OutcomeDone {
			return append(steps, string(p.Stage))
		}
		p = p.ScaledUp()
		record := o.State
		record.Replicas = &p.Replicas
		if p.Replicas > 0 {
			record.Size = planner.SizeToPersist(p, o)
		}
		if p.Render && c.Apply(manifest(c.Etcd, image, p.Replicas, p.ClusterSize), record) {
			idle = 0
		} else if p.Step != nil {
			steps, idle = append(steps, plan.TraitsOf(p.Step).Kind+" "+plan.MetaOf(p.Step).Object), 0
			Expect(c.Execute(p.Step)).To(Succeed())
		}
		c.Tick()
	}
	Fail(fmt.Sprintf("it does not end: %v", steps))

	return nil
}
