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

	"github.com/gardener/gardener-extension-etcd-druid/test/world"
)

// moment is the world just before or just after a write of the operator, in which it dies.
type moment struct {
	what  string
	world *world.World
}

// tally counts what all stories came to.
var tally struct {
	sync.Mutex
	stories, writes, kills, runs int
}

var _ = AfterSuite(func() {
	fmt.Printf("\nThe operator was killed before and after every write: %d stories, %d writes, %d kills, %d runs (kills that leave the same world behind are one run)\n",
		tally.stories, tally.writes, tally.kills, tally.runs)
})

// story is something that happens to an Etcd. The operator has come to rest before it begins.
type story struct {
	// given makes the world before; it may be run by an undisturbed operator.
	given []func(*world.World)
	// when is what happens.
	when func(*world.World)
	// then is what the undisturbed run has to come to, for the story to be one.
	then func(*world.World)
	// repeatedJobs is how many Jobs a crash may repeat.
	repeatedJobs int
}

// begin makes the world in which the story begins.
func (s story) begin() *world.World {
	w := world.New(scheme)
	for _, happen := range s.given {
		happen(w)
		startOperator(w, nil).run()
	}
	s.when(w)
	return w
}

// record plays the story with an undisturbed operator.
func (s story) record() (*world.World, []moment) {
	w := s.begin()
	var moments []moment
	rejected := map[string]bool{} // since the last write that was not
	o := startOperator(w, func(write world.Write) {
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
		moments = append(moments, moment{what: when + " " + write.What, world: w.Fork()})
	})
	o.run()
	Expect(o.err).NotTo(HaveOccurred())
	return w, moments
}

// distinct leaves out the moments that leave the same world behind as the one before: after a write and before the next one
// of the same pass nothing has happened.
func distinct(moments []moment) []moment {
	return slices.CompactFunc(slices.Clone(moments), func(a, b moment) bool {
		return a.world.State() == b.world.State() && a.world.Clock.Now().Equal(b.world.Clock.Now())
	})
}

// killedEverywhere plays the story, and then again with an operator that dies before and after each of its writes, all of them,
// and one that takes over. What each comes to has to be the same.
func killedEverywhere(s story) {
	GinkgoHelper()
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
	tally.stories, tally.writes, tally.kills, tally.runs = tally.stories+1, tally.writes+len(moments)/2, tally.kills+len(moments), tally.runs+len(runs)
	tally.Unlock()
	failures = slices.DeleteFunc(failures, func(failure string) bool { return failure == "" })
	if len(failures) > 0 {
		Fail(fmt.Sprintf("%d of %d runs came to something else\n%s", len(failures), len(runs), strings.Join(failures, "\n")))
	}
}

// reportCounts adds the counts of a case to the report, so that they can be compared between versions of the operator.
func reportCounts(w *world.World, writes, runs int) {
	AddReportEntry("Counts", fmt.Sprintf("PodsMade %d, JobsMade %d, writes %d, runs %d", w.PodsMade, w.JobsMade, writes, runs), ReportEntryVisibilityFailureOrVerbose)
}

// absence is how long nobody is there after an operator has died: longer than the second to which many things are told apart.
const absence = 2 * time.Second

// takeOver lets a new operator go on after the moment, and says what is different in the end; empty: nothing.
func (s story) takeOver(m moment, undisturbed *world.World, want []string) string {
	w := m.world
	w.Clock.Step(absence)
	startOperator(w, func(world.Write) {}).run() // the world checks only writes that are counted
	differences := world.Differences(want, w.Snapshot())
	for _, violation := range w.Violations {
		differences = append(differences, "  ! "+violation)
	}
	if w.PodsMade > undisturbed.PodsMade {
		differences = append(differences, fmt.Sprintf("  ! %d pods were made instead of %d", w.PodsMade, undisturbed.PodsMade))
	}
	if w.JobsMade > undisturbed.JobsMade+s.repeatedJobs {
		differences = append(differences, fmt.Sprintf("  ! %d Jobs were made instead of %d", w.JobsMade, undisturbed.JobsMade))
	}
	if len(differences) == 0 {
		return ""
	}
	return "killed " + m.what + ":\n" + strings.Join(differences, "\n")
}
