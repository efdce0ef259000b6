// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// moment is the world just before or just after a write of the operator, in which it dies.
type crashPoint struct {
	what    string
	cluster *kube.Cluster
}

// tally counts what all stories came to.
var tally struct {
	sync.Mutex
	cases, writes, kills, runs int
}

var _ = AfterSuite(func() {
	fmt.Printf("\nThe operator was killed before and after every write: %d cases, %d writes, %d kills, %d runs (kills that leave the same cluster behind are one run)\n",
		tally.cases, tally.writes, tally.kills, tally.runs)
})

// story is something that happens to an Etcd. The operator has come to rest before it begins.
type crashCase struct {
	// given makes the world before; it may be run by an undisturbed operator.
	given []func(*kube.Cluster)
	// when is what happens.
	when func(*kube.Cluster)
	// then is what the undisturbed run has to come to, for the story to be one.
	then func(*kube.Cluster)
	// unforeseen is true if a later rejection or failure decides the steps: `kubectl etcd plan` assumes that all goes well.
	unforeseen bool
	// repeatedJobs is how many Jobs a crash may repeat.
	repeatedJobs int
}

// begin makes the world in which the story begins.
func (s crashCase) begin() *kube.Cluster {
	k := kube.New(scheme)
	for _, happen := range s.given {
		happen(k)
		startOperator(k, nil).run()
	}
	s.when(k)
	return k
}

// record plays the story with an undisturbed operator.
func (s crashCase) record() (*kube.Cluster, []crashPoint) {
	k := s.begin()
	var moments []crashPoint
	rejected := map[string]bool{} // since the last write that was not
	o := startOperator(k, func(write kube.Write) {
		when := "before"
		if write.Done {
			when = "after"
		}
		switch {
		case write.Done && write.Err == nil:
			clear(rejected)
		case write.Done && rejected[write.What]: // a retry without any change: one crash at the first attempt is enough
			moments = moments[:len(moments)-1]
			return
		case write.Done:
			rejected[write.What] = true
		}
		moments = append(moments, crashPoint{what: when + " " + write.What, cluster: k.Fork()})
	})
	o.run()
	Expect(o.err).NotTo(HaveOccurred())
	return k, moments
}

// distinct leaves out the moments that leave the same world behind as the one before: after a write and before the next one
// of the same pass nothing has happened.
func distinct(moments []crashPoint) []crashPoint {
	return slices.CompactFunc(slices.Clone(moments), func(a, b crashPoint) bool {
		return a.cluster.State() == b.cluster.State() && a.cluster.Clock.Now().Equal(b.cluster.Clock.Now())
	})
}

// killedEverywhere plays the story, and then again with an operator that dies before and after each of its writes, all of them,
// and one that takes over. What each comes to has to be the same.
func killedEverywhere(s crashCase) {
	GinkgoHelper()
	expectPlanned(s)
	undisturbed, moments := s.record()
	Expect(undisturbed.Violations).To(BeEmpty())
	s.then(undisturbed)
	want, runs := undisturbed.Snapshot(), distinct(moments)
	reportCounts(undisturbed, len(moments)/2, len(runs))

	failures := make([]string, len(runs))
	var group sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				failures[i] = s.takeOver(runs[i], undisturbed, want)
			}
		})
	}
	for i := range runs {
		next <- i
	}
	close(next)
	group.Wait()

	tally.Lock()
	tally.cases, tally.writes, tally.kills, tally.runs = tally.cases+1, tally.writes+len(moments)/2, tally.kills+len(moments), tally.runs+len(runs)
	tally.Unlock()
	failures = slices.DeleteFunc(failures, func(failure string) bool { return failure == "" })
	if len(failures) > 0 {
		Fail(fmt.Sprintf("%d of %d runs came to something else\n%s", len(failures), len(runs), strings.Join(failures, "\n")))
	}
}

// reportCounts adds the counts of a case to the report, so that they can be compared between versions of the operator.
func reportCounts(k *kube.Cluster, writes, runs int) {
	AddReportEntry("Counts", fmt.Sprintf("PodsMade %d, JobsMade %d, writes %d, runs %d", k.PodsMade, k.JobsMade, writes, runs), ReportEntryVisibilityFailureOrVerbose)
}

// absence is how long nobody is there after an operator has died: longer than the second to which many things are told apart.
const absence = 2 * time.Second

// takeOver lets a new operator go on after the moment, and says what is different in the end; empty: nothing.
func (s crashCase) takeOver(m crashPoint, undisturbed *kube.Cluster, want []string) string {
	k := m.cluster
	k.Clock.Step(absence)
	startOperator(k, func(kube.Write) {}).run() // the world checks only writes that are counted
	differences := kube.Differences(want, k.Snapshot())
	for _, violation := range k.Violations {
		differences = append(differences, "  ! "+violation)
	}
	if k.PodsMade > undisturbed.PodsMade {
		differences = append(differences, fmt.Sprintf("  ! %d pods were made instead of %d", k.PodsMade, undisturbed.PodsMade))
	}
	if k.JobsMade > undisturbed.JobsMade+s.repeatedJobs {
		differences = append(differences, fmt.Sprintf("  ! %d Jobs were made instead of %d", k.JobsMade, undisturbed.JobsMade))
	}
	if len(differences) == 0 {
		return ""
	}
	return "killed " + m.what + ":\n" + strings.Join(differences, "\n")
}
