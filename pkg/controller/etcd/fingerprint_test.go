// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// A missing fact makes the operator pause a recovery that makes progress. An additional fact, such as a time, disguises an endless loop as
// progress.
var _ = Describe("Fingerprint of a recovery", func() {
	observed := func() etcdcluster.Observation {
		return etcdcluster.Observation{
			RecoveryJob: etcdcluster.RecoveryJob{Exists: true, Name: "main-recovery", Suspended: true},
			State:       state.State{Recovery: &state.Recovery{Source: "Volume", Claim: "main-main-0"}},
		}
	}
	fingerprint := func(change func(*etcdcluster.Observation)) string {
		o := observed()
		change(&o)

		return etcd.FingerprintOf(&druidv1alpha1.Etcd{}, o)
	}
	nothing := func(*etcdcluster.Observation) {}

	DescribeTable("differs after each step", func(step func(*etcdcluster.Observation)) {
		Expect(fingerprint(step)).NotTo(Equal(fingerprint(nothing)))
	},
		Entry("the pods have stopped", func(o *etcdcluster.Observation) { o.State.Recovery.Stopped = true }),
		Entry("another volume has the data", func(o *etcdcluster.Observation) { o.State.Recovery.Claim = "main-main-1" }),
		Entry("the volume has every acknowledged write", func(o *etcdcluster.Observation) { o.State.Recovery.Proven = true }),
		Entry("the operator records the Job before it resumes it", func(o *etcdcluster.Observation) { o.State.Recovery.Job = "uid" }),
		Entry("the operator resumes the Job", func(o *etcdcluster.Observation) { o.RecoveryJob.Suspended = false }),
		Entry("the Job has failed", func(o *etcdcluster.Observation) { o.RecoveryJob.Failed = true }),
		Entry("the Job has succeeded", func(o *etcdcluster.Observation) { o.RecoveryJob.Result = &etcdcluster.Extraction{} }),
		Entry("the Job is deleted", func(o *etcdcluster.Observation) { o.RecoveryJob.Deleting = true }),
		Entry("the Job is gone", func(o *etcdcluster.Observation) { o.RecoveryJob = etcdcluster.RecoveryJob{} }),
		Entry("the snapshot is stored", func(o *etcdcluster.Observation) { o.State.Recovery.Stored = &state.StoredRecovery{} }),
		Entry("the snapshot is outdated", func(o *etcdcluster.Observation) { o.State.Recovery.Outdated = "uid" }),
		Entry("the recovery is withdrawn", func(o *etcdcluster.Observation) { o.State.Recovery.Withdrawn = "A member is healthy" }),
	)

	DescribeTable("does not differ", func(change func(*etcdcluster.Observation)) {
		Expect(fingerprint(change)).To(Equal(fingerprint(nothing)))
	},
		Entry("after a time has changed", func(o *etcdcluster.Observation) { o.State.Recovery.ChosenAt = time.Unix(1, 0) }),
		Entry("after another Job with the same state was created", func(o *etcdcluster.Observation) { o.RecoveryJob.UID = "uid" }),
		Entry("after a revision has changed", func(o *etcdcluster.Observation) { o.State.Recovery.Known = 7 }),
	)
})
