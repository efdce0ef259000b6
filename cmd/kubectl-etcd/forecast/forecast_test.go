// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/forecast"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var _ = Describe("For", func() {
	It("starts the first member alone where there is nothing, and lets the others join one at a time", func() {
		Expect(actsOf(nothing(3))).To(Equal([]string{
			"create the cluster's objects with 1 of 3 members", "start the next member", "start the next member",
			"transfer leadership from the member in pod main-0 to main-1", "evict pod main-0", "Done",
		}))
	})

	It("restarts the first member before the others join where there is a store", func() {
		question := nothing(3)
		question.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{}
		question.Observation.FullSnapshotLease.RenewTime = now
		Expect(actsOf(question)).To(Equal([]string{
			"create the cluster's objects with 1 of 3 members", "delete pod main-0", "start the next member", "start the next member", "Done",
		}))
	})

	It("does nothing with a cluster that is as its spec asks", func() {
		Expect(actsOf(running(3, "v1", "v1"))).To(Equal([]string{"Done"}))
	})

	It("replaces followers first and the leader last, with the arithmetic of the quorum", func() {
		lines, err := forecast.For(running(3, "v1", "v2"))
		Expect(err).NotTo(HaveOccurred())
		Expect(acts(lines)).To(Equal([]string{
			"evict pod main-1", "evict pod main-2", "transfer leadership from the member in pod main-0 to main-1", "evict pod main-0", "Done",
		}))
		Expect(lines[0].Reason).To(Equal("3 of 3 healthy; replacing main-1 leaves 2 of 3: allowed"))
	})

	It("stops the members of a cluster that hibernates", func() {
		question := running(3, "v1", "v1")
		question.Etcd.Spec.Replicas = 0
		lines, err := forecast.For(question)
		Expect(err).NotTo(HaveOccurred())
		Expect(lines[len(lines)-1].Stage).To(Equal(plan.StageHibernated))
	})

	It("names the field of a spec that cannot be carried out", func() {
		question := running(3, "v1", "v1")
		question.Etcd.Spec.Replicas = 1
		lines, err := forecast.For(question)
		Expect(err).NotTo(HaveOccurred())
		Expect(lines).To(HaveLen(1))
		Expect(lines[0].Stage).To(Equal(plan.StageRefused))
		Expect(lines[0].Reason).To(HavePrefix("spec.replicas"))
	})

	It("ends with what does not come by itself", func() {
		question := running(1, "v1", "v1")
		question.Observation.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionPods, Message: "you may not"}}
		lines, err := forecast.For(question)
		Expect(err).NotTo(HaveOccurred())
		Expect(lines).To(HaveLen(1))
		Expect(lines[0].WaitsFor).To(Equal("reading Pods: you may not"))
	})

	It("returns the error of the rendering", func() {
		question := running(1, "v1", "v1")
		question.Render = func(plan.Plan) (forecast.Rendered, error) {
			return forecast.Rendered{}, errors.New("cannot render")
		}
		_, err := forecast.For(question)
		Expect(err).To(MatchError("cannot render"))
	})
})

func actsOf(question forecast.Question) []string {
	GinkgoHelper()
	lines, err := forecast.For(question)
	Expect(err).NotTo(HaveOccurred())

	return acts(lines)
}

// acts are what is done, and the stage where nothing is.
func acts(lines []forecast.Line) []string {
	var acts []string
	for _, line := range lines {
		if line.Act != "" {
			acts = append(acts, line.Act)
		} else {
			acts = append(acts, string(line.Stage))
		}
	}

	return acts
}

// nothing asks about a cluster that does not exist.
func nothing(replicas int32) forecast.Question {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Name, etcd.Namespace, etcd.UID, etcd.Generation = "main", "demo", "etcd-uid", 1
	etcd.Spec.Replicas = replicas

	return forecast.Question{Etcd: etcd, Now: now, Render: renderer("v1")}
}

// running asks about a cluster that runs one image and is to run another. Its first member leads.
func running(replicas int32, image, wanted string) forecast.Question {
	question := nothing(replicas)
	question.Render = renderer(wanted)
	rendered, err := renderer(image)(plan.Plan{Replicas: replicas, ClusterSize: replicas})
	Expect(err).NotTo(HaveOccurred())
	question.Running = rendered
	o := &question.Observation
	o.ManagedResource = etcdcluster.ManagedResource{Exists: true, GenerationObserved: true, Applied: etcdcluster.ConditionFact{Status: "True"}}
	o.State = state.State{Size: replicas, Replicas: &replicas}
	o.StatefulSet = etcdcluster.StatefulSet{
		Exists: true, Name: "main", UID: "set", OwnerUID: "etcd-uid", Generation: 1, ObservedGeneration: 1, SpecReplicas: replicas, UpdateRevision: "live",
	}
	for ordinal := range int(replicas) {
		name, id := fmt.Sprintf("main-%d", ordinal), uint64(ordinal)+100
		o.Pods = append(o.Pods, etcdcluster.Pod{
			Name: name, Ordinal: ordinal, RevisionHash: "live", OwnerUID: "set", Phase: "Running", Ready: true, ContainersReady: true,
			CreationTime: now.Add(-time.Hour), ReadyChangedAt: now.Add(-time.Hour), IPs: []string{"10.0.0.1"},
		})
		o.Etcd.Asked = true
		o.Etcd.Members = append(o.Etcd.Members, etcdcluster.MemberAnswer{Ordinal: ordinal, Reachable: true, Serves: true, MemberID: id, ClusterID: 7, LeaderID: 100})
		o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{
			ID: id, Name: name, PeerURLs: []string{"http://" + name + ".main-peer.demo.svc:2380"},
		})
	}

	return question
}

// renderer renders pods of an image that know the size of their cluster.
func renderer(image string) func(plan.Plan) (forecast.Rendered, error) {
	return func(decision plan.Plan) (forecast.Rendered, error) {
		template := fmt.Sprintf("%s of %d", image, decision.ClusterSize)

		return forecast.Rendered{Rendering: etcdcluster.Rendering{Checksum: fmt.Sprintf("%s, %d pods", template, decision.Replicas)}, Template: template}, nil
	}
}
