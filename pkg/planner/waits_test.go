// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

// After the faults, these repair only what the message of the operator names. A message without a remedy fails the test.
var _ = Describe("Random waits", func() {
	It("name their remedy, and end with it", func() {
		simulate(100, func(number int64) *randomScenario {
			s := []func(int64) *randomScenario{newRandom, newRandomSurge, newRandomMigration, newRandomDifferences}[number%4](number)
			s.repairsNamed = true

			return s
		})
	})
})

// remedies are what users do about the messages that match. The first one that changes anything is applied. Each gets the groups of its match. Three
// need more than the message: the scheduler names taints, the logs name the sidecar, and only a person sees that other data responds.
var remedies = []struct {
	message *regexp.Regexp
	apply   func(s *randomScenario, groups []string) string
}{
	{regexp.MustCompile(`check node (\w+)|node (\w+),? (?:to be reachable|is unreachable|has been unreachable)`), func(s *randomScenario, groups []string) string {
		name := cmp.Or(groups[1], groups[2])
		if node := s.Node(name); node == nil || !node.Partitioned || node.OutOfService {
			return ""
		}
		s.PartitionNode(name, false)

		return "node " + name + " recovers"
	}},
	{regexp.MustCompile(`image \S+ of container etcd .*correct spec.etcd.image`), func(s *randomScenario, _ []string) string {
		if s.image == "good" {
			return ""
		}
		s.image = "good"

		return "the image is corrected"
	}},
	{regexp.MustCompile(`If it does not continue, set them back`), func(s *randomScenario, _ []string) string {
		accepted, before := s.Objects.State.Accepted.Spec.Etcd, s.Etcd.Spec.DeepCopy()
		s.Etcd.Spec.Replicas, s.Etcd.Spec.Etcd.ServerPort, s.Etcd.Spec.Etcd.PeerUrlTLS, s.Etcd.Spec.Etcd.Version = 1, accepted.ServerPort, accepted.PeerUrlTLS, accepted.Version
		if apiequality.Semantic.DeepEqual(s.Etcd.Spec, *before) {
			return ""
		}

		return "the size, the version, the ports and TLS are set back"
	}},
	{regexp.MustCompile(`operation=reconcile`), func(s *randomScenario, _ []string) string { return s.reconciliationIsRequested() }},
	{regexp.MustCompile(`one cluster ID for all members|the operator cannot reach the other members`), func(s *randomScenario, _ []string) string { return s.strangerIsEmptied() }},
	{regexp.MustCompile(`EtcdOpsTask \S+ to end`), func(s *randomScenario, _ []string) string {
		s.Objects.Defragmentation = ""

		return "the EtcdOpsTask ends"
	}},
	{regexp.MustCompile(`spec.storageCapacity: .*?(?:the volumes have|set it to) (\d+Gi),`), func(s *randomScenario, groups []string) string {
		s.Etcd.Spec.StorageCapacity = new(resource.MustParse(groups[1]))

		return "spec.storageCapacity becomes " + groups[1]
	}},
	{regexp.MustCompile(`exceeded quota`), func(s *randomScenario, _ []string) string {
		if !s.IsQuotaExhausted() {
			return ""
		}

		return s.quotaChanges()
	}},
	{regexp.MustCompile(`Delete keys`), func(s *randomScenario, _ []string) string {
		if s.KeysSize == 1<<30 {
			return ""
		}
		s.KeysSize = 1 << 30

		return "keys are deleted"
	}},
	{regexp.MustCompile(`spec.storageClass: [^;]* of StorageClass "(\S*)"`), func(s *randomScenario, groups []string) string {
		s.Etcd.Spec.StorageClass = new(groups[1])

		return "spec.storageClass becomes " + groups[1]
	}},
	{regexp.MustCompile(`let a node have room for it`), func(s *randomScenario, _ []string) string {
		for _, node := range s.Nodes {
			if node.Partitioned && !node.OutOfService { // the real message of the scheduler names their taints
				s.PartitionNode(node.Name, false)

				return "node " + node.Name + " recovers"
			}
		}
		s.Nodes = append(s.Nodes, &simulator.Node{Name: fmt.Sprintf("new-%d", len(s.Nodes))})

		return "a node is added"
	}},
	{regexp.MustCompile(`(?:pod|member) main-(\d)[^;]*: it has not been ready since [^;]*; check [^;]*the logs of the pod`), func(s *randomScenario, groups []string) string {
		pod := s.Objects.PodFor(int(groups[1][0] - '0'))
		if pod == nil || !s.Process(pod.UID).SidecarBroken && (s.Member(pod.Ordinal) != nil || s.Leader == 0) {
			return ""
		}
		s.DeletePod(pod.Ordinal)

		return "the sidecar of " + pod.Name + " does not start, or etcd in it has not joined, so that the pod is deleted"
	}},
	{regexp.MustCompile(`check [^;]*the store|[Tt]he store (?:does not|needs|may be)|snapshot in the store`), func(s *randomScenario, _ []string) string {
		if s.Store.Down {
			return s.storeFails()
		}

		return s.bucketIsRepaired()
	}},
}

// repairNamed repairs what the messages of each wait name, until nothing is left to wait for.
func (s *randomScenario) repairNamed() {
	s.idleTicks = 140 // longer than the pause after an aborted surge
	for range 20 {
		s.runFor(600)
		var messages []string
		for range 70 { // longer than the pause between two attempts to free space
			s.runFor(1)
			if message := s.awaited(); message != "" && !slices.Contains(messages, message) {
				messages = append(messages, message)
			}
		}
		switch {
		case len(messages) == 0 && s.Etcd.Spec.Replicas == 0:
			s.inject("the cluster wakes up", func() { s.Etcd.Spec.Replicas = s.awake })
			continue
		case len(messages) == 0:
			return
		}
		if !s.repair(strings.Join(messages, "; ")) {
			s.violated("no remedy is named in %q", messages)

			return
		}
	}
	s.violated("it does not end")
}

// repair applies the first remedy that the messages name and that changes anything. False: there is none.
func (s *randomScenario) repair(messages string) bool {
	for _, remedy := range remedies {
		for _, groups := range remedy.message.FindAllStringSubmatch(messages, -1) {
			what := ""
			s.change(func() { what = remedy.apply(s, groups) })
			if what != "" {
				s.note("* as the message says: %s", what)
				s.Refresh()

				return true
			}
		}
	}

	return false
}

// awaited is the message about what the operator waits for. Empty: nothing is left to do.
func (s *randomScenario) awaited() string {
	run := s.result.Newest
	switch p := run.Plan; {
	case p.Stage == "" || s.result.Accepted != nil:
		return s.result.Description
	case p.Stage == plan.StageHibernated && p.Blocked == nil:
		return ""
	case p.Outcome() == plan.OutcomeDone && len(s.Alarms) > 0:
		return cmp.Or(s.Objects.State.Space.Blocked, "nothing, although an alarm is raised")
	case p.Outcome() == plan.OutcomeDone:
		return ""
	case p.Refusal != nil:
		return p.Refusal.Error()
	case p.WaitsFor == "" && p.Blocked != nil:
		return p.Blocked.Error()
	default:
		return p.WaitsFor + " (" + p.Reason + ")"
	}
}
