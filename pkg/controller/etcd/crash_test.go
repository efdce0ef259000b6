// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// crashPoint is the cluster just before or just after a write of the operator, at which the operator is killed.
type crashPoint struct {
	what    string
	cluster *kube.Cluster
}

// tally counts the results of all cases.
var tally struct {
	sync.Mutex
	cases, writes, runs int
}

var _ = AfterSuite(func() {
	fmt.Printf("\n%d crash cases with %d writes: the operator was killed in %d runs\n", tally.cases, tally.writes, tally.runs)
})

// crashCase is a change of an Etcd. The operator is idle before it begins.
type crashCase struct {
	// given creates the cluster before the change; an undisturbed operator may run it.
	given []func(*kube.Cluster)
	// when is what happens.
	when func(*kube.Cluster)
	// then checks the result of the undisturbed run.
	then func(*kube.Cluster)
	// unforeseen is true if a later rejection or failure decides the steps: `kubectl etcd plan` assumes that all goes well.
	unforeseen bool
	// unplanned is true if `kubectl etcd plan` cannot plan the change: it does not simulate a cluster that is to be joined.
	unplanned bool
	// repeatedJobs is how many Jobs a crash may repeat.
	repeatedJobs int
}

// begin creates the cluster in which the case begins.
func (s crashCase) begin() *kube.Cluster {
	k := kube.New(scheme)
	for _, happen := range s.given {
		happen(k)
		startOperator(k, nil).run()
	}
	s.when(k)
	return k
}

// record runs the case with an undisturbed operator.
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

// distinct omits crash points with the same cluster as the one before: nothing happens between a write and the next one of the same
// reconciliation.
func distinct(moments []crashPoint) []crashPoint {
	return slices.CompactFunc(slices.Clone(moments), func(a, b crashPoint) bool {
		return a.cluster.State() == b.cluster.State() && a.cluster.Clock.Now().Equal(b.cluster.Clock.Now())
	})
}

// sample returns a third of the crash points, or all of them if KILLS is `all`, as in `make test-all`. Which ones depends only on the number of
// crash points, so that only a change can make a run fail.
func sample(moments []crashPoint) []crashPoint {
	if os.Getenv("KILLS") == "all" {
		return moments
	}
	var some []crashPoint
	for i := len(moments) - 1; i >= 0; i -= 3 {
		some = append(some, moments[i])
	}
	return some
}

// killedEverywhere runs the case, and then again with an operator that is killed at a crash point of sample, and a new operator. Each run must
// have the same result.
func killedEverywhere(s crashCase) {
	GinkgoHelper()
	expectPlanned(s)
	undisturbed, moments := s.record()
	Expect(undisturbed.Violations).To(BeEmpty())
	s.then(undisturbed)
	want, runs := undisturbed.Snapshot(), sample(distinct(moments))
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
	tally.cases, tally.writes, tally.runs = tally.cases+1, tally.writes+len(moments)/2, tally.runs+len(runs)
	tally.Unlock()
	failures = slices.DeleteFunc(failures, func(failure string) bool { return failure == "" })
	if len(failures) > 0 {
		Fail(fmt.Sprintf("%d of %d runs came to something else\n%s", len(failures), len(runs), strings.Join(failures, "\n")))
	}
}

// reportCounts adds the counts of a case to the report, so that they can be compared between versions of the operator.
func reportCounts(k *kube.Cluster, writes, runs int) {
	AddReportEntry("Counts", fmt.Sprintf("PodsCreated %d, JobsCreated %d, writes %d, runs %d", k.PodsCreated, k.JobsCreated, writes, runs), ReportEntryVisibilityFailureOrVerbose)
}

// absence is the time without an operator after a kill: longer than one second, the resolution of many recorded times.
const absence = 2 * time.Second

// takeOver runs a new operator after the crash point, and returns the differences at the end; empty: none.
func (s crashCase) takeOver(m crashPoint, undisturbed *kube.Cluster, want []string) string {
	k := m.cluster
	k.Clock.Step(absence)
	startOperator(k, func(kube.Write) {}).run() // the cluster checks only writes that are counted
	differences := kube.Differences(want, k.Snapshot())
	for _, violation := range k.Violations {
		differences = append(differences, "  ! "+violation)
	}
	if k.PodsCreated > undisturbed.PodsCreated {
		differences = append(differences, fmt.Sprintf("  ! %d pods were created instead of %d", k.PodsCreated, undisturbed.PodsCreated))
	}
	if k.JobsCreated > undisturbed.JobsCreated+s.repeatedJobs {
		differences = append(differences, fmt.Sprintf("  ! %d Jobs were created instead of %d", k.JobsCreated, undisturbed.JobsCreated))
	}
	if len(differences) == 0 {
		return ""
	}
	return "killed " + m.what + ":\n" + strings.Join(differences, "\n")
}
