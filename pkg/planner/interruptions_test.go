// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// These interrupt procedures by what is not a fault of the cluster, in addition to the faults of properties_test.go.
var _ = Describe("Random interruptions", func() {
	It("by other operators, tasks, a lost record and an older CustomResourceDefinition keep the acknowledged writes, and converge", func() {
		simulate(100, func(number int64) *randomScenario {
			s := []func(int64) *randomScenario{newRandom, newRandomSurge, newRandomMigration}[number%3](number)
			if s.isInterrupted = true; number%3 == 0 {
				s.joinSometimes()
			}

			return s
		})
	})
})

// operatorStarts starts another operator, which interrupts the calls of the previous one. Its clock may be behind: what the previous one has recorded is
// then in the future.
func (s *randomScenario) operatorStarts() string {
	s.startOperator(-time.Duration(s.random.Intn(3)) * 10 * time.Minute)

	return fmt.Sprintf("another operator starts, whose clock is %s behind", -s.operator.ClockOffset)
}

// taskStarts starts a task that defragments the members, or ends it.
func (s *randomScenario) taskStarts() string {
	switch {
	case s.Objects.Defragmentation != "":
		s.Objects.Defragmentation = ""

		return "the EtcdOpsTask ends"
	case opstask.DefragmentationPrecondition(s.Objects.State) != nil || s.Etcd.Spec.Replicas == 0:
		return ""
	default:
		s.Objects.Defragmentation = "shrink"

		return "an EtcdOpsTask defragments the members"
	}
}

// recordIsLost removes the record, except that of the store, which has its own annotation. The operator then observes the version of etcd. It does not
// know any more which pod a surge replaces.
func (s *randomScenario) recordIsLost() string {
	if s.random.Intn(4) > 0 || s.joins {
		return ""
	}
	for _, pod := range s.Objects.Pods {
		if surge := s.Objects.State.Surge; surge.IsActive() && pod.UID == surge.Pod {
			s.invariants.reported = map[types.UID]bool{pod.UID: true}
		}
	}
	s.Objects.State = state.State{EtcdVersion: s.Objects.State.EtcdVersion, Store: s.Objects.State.Store}

	return "the record is lost"
}

// fieldsArePruned removes the fields from the spec that the CustomResourceDefinition of gardenlet lacks.
func (s *randomScenario) fieldsArePruned() string {
	if s.random.Intn(4) > 0 {
		return ""
	}
	s.Etcd.Spec.Etcd.UpdateStrategy, s.Etcd.Spec.Etcd.Version = nil, nil

	return "an older CustomResourceDefinition prunes fields"
}
