// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// These lose the quorum, which the faults of properties_test.go never do, and damage the store. A user then requests a restore without
// accepting any loss, and may accept it afterwards.
var _ = Describe("Random disasters", func() {
	It("end without a running cluster, or with all acknowledged writes, or with a reported loss", func() {
		outcomes := map[string]int{}
		for number := range int64(100) {
			scenario := newRandom(number + 1)
			withStore(scenario.Etcd)
			outcomes[scenario.runDisaster()]++
			if violations := scenario.violations(); len(violations) > 0 {
				Fail(fmt.Sprintf("disaster %d: %s\n%s", number+1, strings.Join(violations, "; "), strings.Join(scenario.trace, "\n")))
			}
		}
		AddReportEntry(fmt.Sprintf("outcomes: %v", outcomes), ReportEntryVisibilityAlways)
		Expect(outcomes).To(And(HaveLen(3), HaveKey("complete"), HaveKey("refused"), HaveKey("accepted")), "the user can accept the loss")
	})

	It("would be reported if the cluster runs without an acknowledged write", func() {
		s := newScenario(3, withStore)
		s.run()
		Expect(s.Write(100)).To(BeTrue())
		s.runFor(1)
		s.inject("all members and the store lose the newest write, and nothing records it", func() {
			s.Data = s.Data.At(s.Data.Revision - 1)
			s.Store.RollBackTo(s.Data.Revision)
			s.Objects.State.Evidence.HighestRevision = 1
		})
		s.runFor(30)
		Expect(s.violations()).To(ContainElement(ContainSubstring("the acknowledged write with revision 101 is neither on a quorum nor in the store, and its loss is not reported")))
	})
})

// These lose voting members one after the other or at once, with each recovery policy. Members lag behind meanwhile. A user chooses sometimes.
var _ = Describe("Random losses of a quorum", func() {
	It("are recovered only with consent or proof, and lose no more than stated", func() {
		outcomes := map[string]int{}
		for number := range int64(120) {
			scenario := newRandomLoss(number + 1)
			outcomes[scenario.runLoss()]++
			if violations := scenario.violations(); len(violations) > 0 {
				Fail(fmt.Sprintf("loss %d: %s\n%s", number+1, strings.Join(violations, "; "), strings.Join(scenario.trace, "\n")))
			}
		}
		AddReportEntry(fmt.Sprintf("outcomes: %v", outcomes), ReportEntryVisibilityAlways)
		for _, outcome := range []string{"proven", "with a loss", "waits", "tolerated"} {
			Expect(outcomes).To(HaveKeyWithValue(outcome, BeNumerically(">=", 5)))
		}
	})
})

// newRandomLoss returns the simulation of a cluster with a store and a recovery policy.
func newRandomLoss(number int64) *randomScenario {
	random := rand.New(rand.NewSource(number)) // #nosec G404 -- repeatable on purpose
	policy := druidv1alpha1.RecoveryPolicies[random.Intn(len(druidv1alpha1.RecoveryPolicies))]
	s := &randomScenario{scenario: newScenario([]int32{3, 3, 5}[random.Intn(3)], withStore, withPolicy(policy)), number: number, random: random}
	s.operator.Config.RecoveryDwellTime, s.operator.Config.RecoveryMaxClusters = time.Minute, 3
	s.CatchUpTicks = random.Intn(6)
	s.NetworkVolumes = random.Intn(4) == 0

	return s
}

// runLoss writes, and loses members in between until no quorum is possible. It returns the outcome.
func (s *randomScenario) runLoss() string {
	s.runUntil(func() bool { return s.Leader != 0 && len(s.Members) == int(s.Etcd.Spec.Replicas) })
	s.runFor(10)
	s.resetTrace()
	s.Store.Down = s.random.Intn(2) == 0
	s.SetClassBroken("", s.random.Intn(2) == 0) // new claims have no volumes then
	hasPartitions := s.random.Intn(2) == 0
	for _, ordinal := range s.random.Perm(int(s.Etcd.Spec.Replicas))[:s.Etcd.Spec.Replicas/2+1] {
		for range s.random.Intn(20) {
			s.Write(1 + s.random.Intn(3))
			s.reconcile()
			s.tick()
			if node := s.Nodes[s.random.Intn(len(s.Nodes))]; hasPartitions && s.random.Intn(6) == 0 {
				s.inject(fmt.Sprintf("node %s is partitioned: %t", node.Name, !node.Partitioned), func() { s.PartitionNode(node.Name, !node.Partitioned); s.Refresh() })
			}
		}
		s.inject(fmt.Sprintf("member %d is lost", ordinal), func() {
			if pod := s.Objects.PodFor(ordinal); pod != nil && pod.Node != "" && s.random.Intn(2) == 0 {
				s.RemoveNode(pod.Node)
			} else {
				s.LoseVolume(ordinal)
				s.DeletePod(ordinal)
			}
			s.Refresh()
		})
	}
	for _, node := range s.Nodes {
		s.PartitionNode(node.Name, false)
	}
	s.Store.Down, s.idleTicks = false, 60
	s.runFor(s.random.Intn(60))
	s.SetClassBroken("", false)
	s.runFor(150)
	if loss := planner.QuorumLossOf(s.Etcd, s.withConfig(), s.Now()); loss != nil && s.random.Intn(2) == 0 && len(loss.Options) > 0 {
		option := loss.Options[s.random.Intn(len(loss.Options))]
		s.inject("a user chooses "+option.Token, func() { s.Etcd.Annotations = map[string]string{druidv1alpha1.RecoverAnnotation: option.Token} })
		s.runFor(200)
	}
	switch {
	case s.steps["RecoverData"] == 0 && s.Leader != 0:
		return "tolerated"
	case s.Leader == 0:
		return "waits"
	case s.Objects.State.Evidence.AcceptedRevision == 0:
		return "proven"
	default:
		return "with a loss"
	}
}

// runDisaster runs a cluster with writes, loses its quorum, damages its store, and requests a restore. It returns the outcome.
func (s *randomScenario) runDisaster() string {
	s.runUntil(func() bool { return s.Leader != 0 && len(s.Members) == int(s.Etcd.Spec.Replicas) })
	for range 20 + s.random.Intn(100) {
		s.reconcile()
		s.Write(1 + s.random.Intn(3))
		s.tick()
		if s.random.Intn(20) == 0 {
			s.note("* %s", s.storeFails())
		}
	}
	s.inject("the data is lost", func() {
		switch keep := s.random.Intn(len(s.Members)); s.random.Intn(3) {
		case 0:
			s.CorruptAllVolumes()
		case 1:
			for ordinal := keep / 2; ordinal < len(s.Members); ordinal++ {
				s.LoseVolume(ordinal)
				s.DeletePod(ordinal)
			}
		default:
			for ordinal := range len(s.Members) {
				s.LoseVolume(ordinal)
				s.DeletePod(ordinal)
			}
		}
	})
	s.inject("the bucket is damaged", func() {
		s.Store.Down = false
		switch s.random.Intn(3) {
		case 0:
			s.bucketIsEmptied()
		case 1:
			s.bucketIsRolledBack()
		}
	})
	s.Refresh()
	s.idleTicks = 70
	s.runFor(100)
	s.inject("a restore is requested", func() {
		s.Etcd.Annotations = map[string]string{druidv1alpha1.RestoreAnnotation: druidv1alpha1.RestoreFromStore}
	})
	s.runFor(200)
	if s.Leader != 0 {
		return "complete"
	}
	newest, err := s.Store.Newest()
	if err != nil || s.random.Intn(2) == 0 {
		return "refused"
	}
	s.inject("a restore is requested, and its revision is accepted", func() {
		s.Etcd.Annotations = map[string]string{
			druidv1alpha1.RestoreAnnotation: druidv1alpha1.RestoreFromStore, druidv1alpha1.AcceptRevisionAnnotation: strconv.FormatInt(newest.Position.Revision, 10),
		}
	})
	s.runFor(200)
	if s.Leader == 0 {
		return "stopped"
	}

	return "accepted"
}
