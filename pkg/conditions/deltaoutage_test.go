// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// The sidecar takes full snapshots each hour and delta snapshots every 20 seconds. A full snapshot may take ten minutes.
var _ = Describe("The part of BackupReady about delta snapshots around a full snapshot", func() {
	var (
		in       conditions.Input
		previous time.Duration // the duration of the previous full snapshot
		took     time.Duration // the duration of the full snapshot at noon. 0: it is never recorded
		lastly   time.Duration // the time after noon of the last recorded delta snapshot
	)

	BeforeEach(func() {
		in = healthy(func(in *conditions.Input) {
			in.Etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: 20 * time.Second}
		})
		previous, took, lastly = 2*time.Second, 2*time.Second, time.Hour
	})

	// pause is true while the sidecar takes a full snapshot.
	pause := func(now time.Time) bool {
		begun := now.Truncate(time.Hour)
		return begun.Before(noon) && now.Before(begun.Add(previous)) || begun.Equal(noon) && took > 0 && now.Before(noon.Add(took))
	}
	// records updates the Leases as the sidecar does.
	records := func() {
		full, delta := &in.Observation.FullSnapshotLease, &in.Observation.DeltaSnapshotLease
		if begun := noon.Add(-time.Hour); !in.Now.Before(begun.Add(previous)) {
			full.RenewTime = begun.Add(time.Second / 2)
		}
		if took > 0 && !in.Now.Before(noon.Add(took)) {
			full.RenewTime = noon.Add(time.Second / 2)
		}
		if in.Now.Unix()%20 == 0 && !pause(in.Now) && !in.Now.After(noon.Add(lastly)) {
			delta.RenewTime = in.Now
		}
	}
	// changes reconciles every five seconds until the given time, and returns each change of the condition. The operator does not run between noon and from.
	changes := func(from, until time.Duration) []string {
		var said []string
		for now := noon.Add(-time.Hour); !now.After(noon.Add(until)); now = now.Add(5 * time.Second) {
			if now.Equal(noon.Add(-50 * time.Minute)) {
				now = noon.Add(-6 * time.Minute) // nothing but delta snapshots happens meanwhile
			}
			in.Now = now
			records()
			if from != 0 && now.After(noon.Add(-10*time.Second)) && now.Before(noon.Add(from)) {
				continue // no operator runs
			}
			reported := statusAndReason(conditions.DeltaSnapshot(in))
			conditions.ForCare(in, &in.Etcd.Status)
			if line := now.Format("15:04:05 ") + reported; now.After(noon.Add(-5*time.Minute)) && (len(said) == 0 || said[len(said)-1][9:] != reported) {
				said = append(said, line)
			}
		}

		return said
	}

	It("reports an outage that begins with the end of a full snapshot within three periods", func() {
		lastly = -time.Second
		Expect(changes(0, 30*time.Minute)).To(Equal([]string{"11:55:05 True BackupSucceeded", "12:01:05 Unknown Unknown", "12:01:25 False DeltaSnapshotOverdue"}))
	})

	It("reports an outage that begins before a full snapshot is due, which is then never taken", func() {
		lastly, took = -10*time.Second, 0
		Expect(changes(0, 30*time.Minute)).To(Equal([]string{"11:55:05 True BackupSucceeded", "12:01:10 False DeltaSnapshotOverdue"}))
	})

	It("reports nothing while a full snapshot takes long, as the one before did, and just after it", func() {
		previous, took = 8*time.Minute, 9*time.Minute
		Expect(changes(0, 30*time.Minute)).To(Equal([]string{"11:55:05 True BackupSucceeded"}))
	})

	It("reports an outage that begins with the end of a full snapshot that takes long", func() {
		previous, took, lastly = 8*time.Minute, 9*time.Minute, 0
		Expect(changes(0, 30*time.Minute)).To(Equal([]string{"11:55:05 True BackupSucceeded", "12:10:00 Unknown Unknown", "12:10:20 False DeltaSnapshotOverdue"}))
	})

	It("allows a full snapshot as much time as it may take where it is not known how long the one before took", func() {
		lastly, took = -10*time.Second, 0
		in.Observation.FullSnapshotLease.RenewTime = noon.Add(-time.Hour)
		in.Now = noon.Add(9 * time.Minute)
		in.Observation.DeltaSnapshotLease.RenewTime = noon.Add(-10 * time.Second)
		Expect(statusAndReason(conditions.DeltaSnapshot(in))).To(Equal("True BackupSucceeded"))
		in.Now = noon.Add(11 * time.Minute)
		Expect(statusAndReason(conditions.DeltaSnapshot(in))).To(Equal("False DeltaSnapshotOverdue"))
	})

	It("counts a full snapshot that was recorded while no operator ran as ended when it is observed", func() {
		lastly = -time.Second
		Expect(changes(5*time.Minute, 30*time.Minute)).To(Equal([]string{"11:55:05 True BackupSucceeded", "12:06:00 Unknown Unknown", "12:06:20 False DeltaSnapshotOverdue"}))
	})

	// The condition names the snapshot in other words as soon as the next one is due and may have been taken.
	DescribeTable("reports an outage only once, although the message about the full snapshot changes meanwhile",
		func(changeMembers func(now time.Time)) {
			in = healthy(func(in *conditions.Input) { in.Etcd.Spec.Backup.FullSnapshotSchedule = new("*/15 * * * *") })
			in.Observation.FullSnapshotLease.RenewTime, in.Observation.FullSnapshotLease.Holder = noon.Add(time.Second/2), "100"
			in.Observation.DeltaSnapshotLease.RenewTime = noon.Add(-10 * time.Second)
			var said []string
			full := map[string]bool{}
			for now := noon.Add(2 * time.Second); now.Before(noon.Add(time.Hour)); now = now.Add(5 * time.Second) {
				in.Now = now
				changeMembers(now)
				reported := statusAndReason(conditions.DeltaSnapshot(in))
				full[conditions.FullSnapshot(in).Message] = true
				conditions.ForCare(in, &in.Etcd.Status)
				if len(said) == 0 || said[len(said)-1][9:] != reported {
					said = append(said, now.Format("15:04:05 ")+reported)
				}
			}
			Expect(len(full)).To(BeNumerically(">", 1), "messages about the full snapshot")
			Expect(said).To(Equal([]string{"12:00:02 True BackupSucceeded", "12:10:22 Unknown Unknown", "12:16:07 False DeltaSnapshotOverdue"}))
		},
		Entry("since nothing was written", func(time.Time) {}),
		Entry("since it is overdue", func(time.Time) { in.Observation.Etcd.Members[0].Revision = 101 }),
		Entry("since something is written after it was due", func(now time.Time) {
			if now.After(noon.Add(25*time.Minute + 2*time.Second)) {
				in.Observation.Etcd.Members[0].Revision = 101
			}
		}),
	)

	It("counts it as ended no later than it may have taken", func() {
		lastly = -time.Second
		Expect(changes(20*time.Minute, 30*time.Minute)).To(Equal([]string{"11:55:05 True BackupSucceeded", "12:20:00 False DeltaSnapshotOverdue"}))
	})
})
