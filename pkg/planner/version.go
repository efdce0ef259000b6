// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// This file decides when the members change to another minor version of etcd. The version is part of the rendering. Members change one at a
// time, followers first and the leader last, because replaceOutdated replaces their pods in this order.

// The rest of the spec waits for a few attempts to take a full snapshot. The first attempt can fail because the sidecar has just started and does not
// lead yet. Such an attempt ends quickly. An attempt that does not is a failure of the store, which the rest of the spec may correct.
const (
	attemptsBeforeRest = 3
	quickAttempt       = 30 * time.Second
)

// holdsRest is true while the rest of the spec waits for the full snapshot of the plan, so that one rollout is enough.
func holdsRest(attempts etcdcluster.SnapshotAttempts, before plan.Plan) bool {
	isBegun := before.Step != nil || attempts.Running || attempts.Error != ""
	isQuick := attempts.EndedAt.Sub(attempts.StartedAt) < quickAttempt

	return isBegun && (attempts.Unsuccessful() == 0 || isQuick && attempts.Unsuccessful() < attemptsBeforeRest)
}

// versionChange is a change of the minor version of etcd that the spec requests and that is not rendered.
type versionChange struct{ from, to string }

func (c versionChange) isDowngrade() bool { return etcdversion.Compare(c.to, c.from) < 0 }

// pendingChange returns the change of the version. False: none is requested, or the cluster has never run. The version in the spec is that of the
// accepted generation.
func pendingChange(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (versionChange, bool) {
	change := versionChange{from: etcdversion.OrOldest(o.State.EtcdVersion), to: helper.EtcdVersion(etcd)}
	hasRun := o.StatefulSet.Exists || len(o.Pods) > 0 || etcdcluster.LastSize(o) > 0
	if change.to == "" || !hasRun || o.State.EtcdVersion == "" && o.State.Accepted == nil {
		return versionChange{}, false
	}

	return change, etcdversion.Compare(change.from, change.to) != 0
}

// renderedVersion is the version of a plan that changes none: the rendered one, or that of the spec if the cluster never ran. Empty: it is
// not known.
func renderedVersion(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) string {
	if _, is := pendingChange(etcd, o); !is && helper.EtcdVersion(etcd) != "" {
		return helper.EtcdVersion(etcd)
	}

	return o.State.EtcdVersion
}

// changeVersion adds to the plan of a running cluster the change of the version that the spec requests. A cluster that is not ready for it keeps
// its version, and the rest of the spec is rolled out. The plan for the full snapshot renders nothing during the first attempts, so that one rollout
// is enough.
func changeVersion(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, p plan.Plan, now time.Time) plan.Plan {
	change, is := pendingChange(etcd, o)
	if !is || !p.Render || !o.StatefulSet.Exists || p.Replicas == 0 {
		return p
	}
	p.EtcdVersion, p.NextEtcdVersion = o.State.EtcdVersion, change.to
	if change.isUnfinished(o) {
		p.EtcdVersion, p.NextEtcdVersion = change.to, ""

		return p
	}
	if p.Blocked = refuseChange(etcd, o, change); p.Blocked != nil || p.Outcome() != plan.OutcomeDone {
		return p
	}
	p.Reason += fmt.Sprintf("; etcd changes from %s to %s", change.from, change.to)
	if awaited := awaitedBeforeChange(viewOf(etcd, o, p.Replicas, now), change); awaited != "" {
		p.Stage, p.WaitsFor = plan.StageWaitForMembers, awaited

		return p
	}
	if helper.IsStoreConfigured(etcd) {
		snapshot, before := finalSnapshot(etcd, o, now, p)
		if snapshot == nil {
			before.Reason += " after a full snapshot"
			before.Render = !holdsRest(o.SnapshotAttempts, before)

			return before
		}
	}
	p.EtcdVersion, p.NextEtcdVersion = change.to, ""

	return p
}

// isUnfinished is true if the change leads to a version that a member has already. An earlier change has not completed then, or an image of the
// spec has that version. It is also true for a downgrade of a single member that does not start with the newer version.
func (c versionChange) isUnfinished(o etcdcluster.Observation) bool {
	for _, endpoint := range o.Etcd.Members {
		if endpoint.Reachable && etcdversion.MinorOf(endpoint.Version) == c.to {
			return true
		}
	}
	pod := o.PodFor(0)

	return c.isDowngrade() && etcdcluster.RenderedReplicas(o) == 1 && pod != nil && pod.NeverStarts()
}

// refuseChange returns why the members cannot change to the version, and what to do. Nil: they can.
func refuseChange(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, change versionChange) *plan.Refusal {
	refuse := func(format string, values ...any) *plan.Refusal {
		return &plan.Refusal{Field: "spec.etcd.version", Message: fmt.Sprintf("the members keep etcd %s: ", change.from) + fmt.Sprintf(format, values...)}
	}
	backup, wrapper := etcd.Spec.Backup.Image, etcd.Spec.Etcd.Image
	switch {
	case !etcdversion.IsAdjacent(change.from, change.to):
		return refuse("etcd changes only between adjacent minor versions, and the operator has images for %v", etcdversion.Supported())
	case (backup == nil) != (wrapper == nil):
		return refuse("spec.etcd.image and spec.backup.image contain etcd both, and one of them is set: set both, or remove both")
	case change.isDowngrade() && ptr.Deref(etcd.Spec.MemberNamePrefix, "") != "" && backup == nil:
		return refuse("spec.memberNamePrefix needs etcd-backup-restore v0.43.0 or newer, and the operator's image for etcd %s is older", change.to)
	case change.isDowngrade() && ptr.Deref(o.Etcd.AuthEnabled, false):
		return refuse("etcd %s cannot read the users of etcd %s: disable the authentication of etcd, or restore a new Etcd from a full snapshot of etcd %s, without the writes since that snapshot", change.to, change.from, change.to)
	default:
		return nil
	}
}

// awaitedBeforeChange is what has to be true before the first member changes. All members are healthy and have the same version, and none joins.
// The cluster version is not too low for an upgrade. Empty: all of it is true.
func awaitedBeforeChange(v view, change versionChange) string {
	if WaitsForAcceptance(v.etcd, v.o) {
		return acceptHint(v.o)
	}
	if v.o.Defragmentation != "" {
		return "EtcdOpsTask " + v.o.Defragmentation + " to end"
	}
	if v.o.PeerChangePending {
		return "the peer URLs of all members to change"
	}
	if !v.isMemberListKnown() {
		return awaitedMemberList(v.o)
	}
	for _, listed := range v.o.Etcd.MemberList {
		if listed.Learner {
			return fmt.Sprintf("learner %s to be promoted", listed.Name)
		}
	}
	for _, member := range v.members {
		switch {
		case member.Endpoint == nil || !member.IsHealthy():
			return fmt.Sprintf("member %s to be healthy", member.Name)
		case etcdversion.MinorOf(member.Endpoint.Version) != change.from:
			return fmt.Sprintf("member %s to report etcd %s; it reports %q", member.Name, change.from, member.Endpoint.Version)
		}
	}
	if change.isDowngrade() {
		return awaitedBeforeDowngrade(v.o.Etcd)
	}

	return awaitedBeforeUpgrade(v.o.Etcd, change)
}

func awaitedBeforeDowngrade(etcd etcdcluster.EtcdResponses) string {
	if etcd.AuthEnabled == nil {
		return "a member to report whether the authentication of etcd is enabled"
	}

	return ""
}

// awaitedBeforeUpgrade returns what to wait for if the cluster version is too low. The leader raises it some seconds after all members have
// changed. A second upgrade that begins before would skip a version. A higher cluster version does not postpone an upgrade.
func awaitedBeforeUpgrade(etcd etcdcluster.EtcdResponses, change versionChange) string {
	version := etcdversion.MinorOf(etcd.ClusterVersion)
	switch {
	case version == "" && etcd.ClusterVersionError != "":
		return fmt.Sprintf("a member to report the cluster version of etcd: %s", etcd.ClusterVersionError)
	case version == "" || etcdversion.Compare(version, change.from) < 0:
		return fmt.Sprintf("the cluster version of etcd to be %s; it is %q", change.from, etcd.ClusterVersion)
	}

	return ""
}
