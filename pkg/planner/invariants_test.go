// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// This checks what the operator promises: before and after each step, before each write of the ManagedResource, and after each tick.

// invariants are the results of the checks.
type invariants struct {
	// failed are the violations of all checks, with the time.
	failed []string
	// isUnverified is true if the restore that was requested last does not verify the store.
	isUnverified bool
	// lostSince is since when a cluster runs without an acknowledged write whose loss is not reported. Zero: it does not.
	lostSince time.Time
	// knownAtRestore is the highest revision that was known when a restore was requested. 0: none was requested.
	knownAtRestore int64
	// acknowledged is the last write that etcd has acknowledged. It contains all earlier ones. The zero value: there was none.
	acknowledged history.Position
	// evenSince is since when an even number of members votes during a removal that could continue. Zero: it is odd, or the removal waits.
	evenSince time.Time
	// excluded is when each pod was excluded from the client Service last.
	excluded map[types.UID]time.Time
	// reported are the pods whose cluster size was reported.
	reported map[types.UID]bool
}

func (s *scenario) violated(format string, args ...any) {
	s.invariants.failed = append(s.invariants.failed, s.Now().Format("15:04:05")+" "+fmt.Sprintf(format, args...))
}

// violations returns what the checks found, and what the simulated members lost.
func (s *scenario) violations() []string { return slices.Concat(s.invariants.failed, s.Incidents) }

// tick lets the other components act. True: any of them changed something.
func (s *scenario) tick() bool {
	changed := s.Tick()
	s.checkSizes()
	s.checkWrites()
	s.checkEven()

	return changed
}

// expectDone expects that all members are healthy voting members with the newest image, and that no check failed.
func (s *scenario) expectDone() {
	GinkgoHelper()
	Expect(s.violations()).To(BeEmpty())
	s.expectRolledOut()
	p := s.result.Newest.Plan
	Expect(p.Outcome()).To(Equal(plan.OutcomeDone), "%s: %s, waits for %s; %s", p.Stage, p.Reason, p.WaitsFor, s.result.Description)
	healthy, all := s.Voters()
	Expect([]int{healthy, all, len(s.Members)}).To(HaveEach(int(s.Etcd.Spec.Replicas)))
	for _, pod := range s.Objects.Pods {
		Expect(pod.Containers[0].Image).To(Equal(s.image))
		Expect(!pod.Excluded && s.Applied().Selects(pod)).To(BeTrue(), "clients use %s", pod.Name)
		Expect(s.Process(pod.UID).EtcdVersion).To(Equal(s.Written().EtcdVersion))
		if requested := helper.EtcdVersion(s.Etcd); requested != "" {
			Expect(s.Process(pod.UID).EtcdVersion).To(Equal(requested))
		}
	}
}

// expectRolledOut expects that the last reconciliation was that of the newest generation, which the cluster shows.
func (s *scenario) expectRolledOut() {
	GinkgoHelper()
	Expect(s.result.Err).NotTo(HaveOccurred())
	Expect(s.result.Accepted).To(BeNil(), s.result.Description)
	Expect(s.result.Newest.Plan.Stage).NotTo(BeEmpty(), s.result.Description)
	Expect(s.Etcd.Status.ObservedGeneration).To(HaveValue(Equal(s.Etcd.Generation)), s.result.Description)
}

// checkSizes checks that no pod that was rendered with size 1 and a store runs next to another member. A learner counts, since it is promoted
// soon. If no member has its data, there is no other cluster. Without a store there is nothing that the sidecar could restore.
func (s *scenario) checkSizes() {
	hasData := slices.ContainsFunc(s.Members, func(member *simulator.Member) bool { return s.IsExisting(member) || s.volumeOf(member) != nil })
	for _, pod := range s.Objects.Pods {
		process := s.Process(pod.UID)
		if process.ClusterSize != 1 || !process.HasStore || pod.Deleting || pod.Node == "" || len(s.Members) < 2 || !hasData || s.invariants.reported[pod.UID] {
			continue
		}
		if surge := s.Objects.State.Surge; surge.IsActive() && pod.UID == surge.Pod {
			continue // it is deleted as soon as its etcd stops
		}
		if s.Objects.State.Restore == state.RestoreDiscard {
			continue // all pods stop, and no data of them is used again
		}
		if s.invariants.reported == nil {
			s.invariants.reported = map[types.UID]bool{}
		}
		s.invariants.reported[pod.UID] = true
		s.violated("pod %s was rendered with size 1, and runs in a cluster of %d members", pod.Name, len(s.Members))
	}
}

// reportTimeout is how long the operator may take to report that a cluster runs without acknowledged writes.
const reportTimeout = time.Minute

// checkWrites checks that no cluster runs without an acknowledged write: the voting members or the store keep the write, or the loss is
// reported. Faults of a cluster without a leader are no concern of this check: the operator decides whether it starts again.
func (s *scenario) checkWrites() {
	lost := s.Acknowledged.Lost(s.isKeptAsKnown)
	if len(lost) == 0 || s.Leader == 0 || s.isLossReported() {
		if s.isLossReported() {
			s.Acknowledged.Report(s.IsKept)
		}
		s.invariants.lostSince = time.Time{}

		return
	}
	if s.invariants.lostSince.IsZero() {
		s.invariants.lostSince = s.Now()
	}
	if s.Now().Sub(s.invariants.lostSince) > reportTimeout {
		s.violated("the acknowledged write with revision %d is neither on a quorum nor in the store, and its loss is not reported", lost[0].Revision)
		s.Acknowledged.Report(s.isKeptAsKnown)
	}
}

// isKeptAsKnown is true for a write that the cluster keeps. After the request for a restore, it is also true for a write that is newer than
// everything that was known then. The user gives it up with the request.
func (s *scenario) isKeptAsKnown(write history.Position) bool {
	known := s.invariants.knownAtRestore
	if known == 0 || write.Revision <= known {
		return s.IsKept(write)
	}

	return s.IsKept(write.At(known))
}

// noteKnown records the highest revision that was known when a restore was requested: that of the evidence and those of the snapshot Leases.
func (s *scenario) noteKnown() {
	if recorded := s.Objects.State.Evidence; recorded != nil {
		s.invariants.knownAtRestore = recorded.HighestRevision
	}
	for _, lease := range []etcdcluster.Lease{s.Objects.FullSnapshotLease, s.Objects.DeltaSnapshotLease} {
		if revision, err := strconv.ParseInt(lease.Holder, 10, 64); err == nil {
			s.invariants.knownAtRestore = max(s.invariants.knownAtRestore, revision)
		}
	}
}

// isLossReported is true while the operator reports that a cluster runs without acknowledged writes, and after a user has accepted it.
func (s *scenario) isLossReported() bool {
	recorded := s.Objects.State.Evidence
	isRecorded := recorded != nil && (recorded.RolledBack != nil || recorded.AcceptedRevision > 0)
	isQuorumLost := s.result.Newest != nil && s.result.Newest.Plan.Stage == plan.StageQuorumLost

	return isRecorded || isQuorumLost || s.invariants.isUnverified
}

// checkStepKeepsWrites checks that a step destroys no acknowledged write, unless a user has accepted that. It returns the check after the step.
func (s *scenario) checkStepKeepsWrites(step plan.Step) func() {
	before := s.Acknowledged.Lost(s.IsRecoverable)

	return func() {
		if after := s.Acknowledged.Lost(s.IsRecoverable); len(after) > len(before) && !s.isLossReported() {
			s.violated("%s %s destroys the acknowledged write with revision %d", kindOf(step), plan.MetaOf(step).Object, after[0].Revision)
		}
	}
}

// checkApply checks the manifests before they are written.
func (s *scenario) checkApply(manifest simulator.Manifest, p plan.Plan) {
	s.checkScaling(manifest)
	s.checkFinalSnapshot(p)
	s.checkRegistered(manifest)
	s.checkVersion(manifest)
	s.checkRecoveryBegins(p)
	if before := s.Objects.State.ScaleIn; p.ScaleIn != nil && p.ScaleIn.Removing && !before.Removing && helper.IsStoreConfigured(s.Etcd) && !s.Objects.SnapshotAttempts.IsFresh(s.Now()) {
		s.violated("members are removed without a verified snapshot")
	}
	if before := s.Objects.State.Existing; p.Existing != nil && p.Existing.Voters > 0 && before.Voters == 0 && helper.IsStoreConfigured(s.Etcd) && !s.Objects.SnapshotAttempts.IsFresh(s.Now()) {
		s.violated("members of the joined cluster are removed without a verified snapshot")
	}
}

// checkVersion checks that the version of etcd changes while all members of the Etcd are healthy, and after a verified snapshot. It may change back to the
// version of a running member. It is lowered only if a spec requests it. The operator may be unable to query the members of a joined cluster.
func (s *scenario) checkVersion(manifest simulator.Manifest) {
	before := s.Written()
	if before == nil || before.Replicas == 0 || manifest.Replicas == 0 || etcdversion.Compare(before.EtcdVersion, manifest.EtcdVersion) == 0 {
		return
	}
	accepted := s.Objects.State.Accepted
	requested := []string{helper.EtcdVersion(s.Etcd)}
	if accepted != nil && accepted.Spec != nil {
		requested = append(requested, ptr.Deref(accepted.Spec.Etcd.Version, ""))
	}
	if etcdversion.Compare(manifest.EtcdVersion, before.EtcdVersion) < 0 && !slices.Contains(requested, manifest.EtcdVersion) {
		s.violated("etcd is lowered from %s to %s, and no spec requests it", before.EtcdVersion, manifest.EtcdVersion)
	}
	for _, pod := range s.Objects.Pods {
		if s.Process(pod.UID).EtcdVersion == manifest.EtcdVersion {
			return // an earlier change is continued or taken back
		}
	}
	pod := s.Objects.PodFor(0)
	if isDowngrade := etcdversion.Compare(manifest.EtcdVersion, before.EtcdVersion) < 0; isDowngrade && before.Replicas == 1 && pod != nil && pod.NeverStarts() {
		return // the image of the newer version cannot be pulled
	}
	if healthy, all := s.ownVoters(); healthy < all || all < int(before.Replicas) {
		s.violated("etcd changes from %s to %s with %d of %d voting members", before.EtcdVersion, manifest.EtcdVersion, healthy, all)
	}
	if helper.IsStoreConfigured(s.Etcd) && !s.Objects.SnapshotAttempts.IsFresh(s.Now()) {
		s.violated("etcd changes from %s to %s without a verified snapshot", before.EtcdVersion, manifest.EtcdVersion)
	}
}

// checkScaling checks that a cluster is scaled up by one member at a time. Except to hibernate, no pod of a member in the member list is
// stopped. To run a member again that joined before does not scale it up.
func (s *scenario) checkScaling(manifest simulator.Manifest) {
	if s.Written() == nil || s.Written().Replicas == 0 || manifest.Replicas == 0 {
		return
	}
	switch before := s.Written().Replicas; {
	case manifest.Replicas < before:
		for _, member := range s.Members {
			if member.Ordinal >= int(manifest.Replicas) {
				s.violated("the cluster is scaled down from %d to %d, and member %d was not removed", before, manifest.Replicas, member.Ordinal)
			}
		}
	case manifest.Replicas > before+1:
		s.violated("the cluster is scaled up from %d to %d at once", before, manifest.Replicas)
	case manifest.Replicas > before && s.Member(int(before)) == nil:
		if s.Objects.State.Inconsistency != nil {
			s.violated("the cluster is scaled up to %d while members have different data", manifest.Replicas)
		}
		for ordinal := range int(before) {
			if member := s.RunningMember(ordinal); member == nil || member.Learner {
				s.violated("the cluster is scaled up to %d while member %d is no healthy voting member", manifest.Replicas, ordinal)
			}
		}
	}
}

// checkFinalSnapshot checks that members stop after a snapshot or after three attempts to take one. A cluster that never ran needs no snapshot,
// and one that was rolled back gets none, since it would not replace the volumes.
func (s *scenario) checkFinalSnapshot(p plan.Plan) {
	hasRun := slices.ContainsFunc(s.Objects.MemberLeases, func(l etcdcluster.Lease) bool { return l.Holder != "" }) ||
		slices.ContainsFunc(s.Objects.Claims, func(c etcdcluster.Claim) bool {
			return c.Exists && c.CreationTime.Before(s.Etcd.CreationTimestamp.Time)
		})
	if !hasRun && p.FinalSnapshot != nil && p.FinalSnapshot.Missing == state.SnapshotNoData {
		return
	}
	if p.Replicas > 0 || p.Restore != "" || s.Written() == nil || s.Written().Replicas == 0 || !helper.IsStoreConfigured(s.Etcd) {
		return
	}
	recorded, attempts := s.Objects.State.Evidence, s.Objects.SnapshotAttempts
	if p.FinalSnapshot != nil && p.FinalSnapshot.Missing == state.SnapshotRolledBack && recorded != nil && recorded.RolledBack != nil {
		return // no snapshot has the lost writes, and the volumes stay
	}
	if p.FinalSnapshot == nil || attempts.Verified == nil && attempts.Unsuccessful() < 3 || attempts.Running {
		s.violated("the members are stopped without a snapshot")
	}
}

// checkRegistered checks that no other peer URLs are rendered while a quorum of pods is ready and a sidecar has not registered its own. The
// sidecar would read the new ones, register them, and stop etcd. The operator waits at most MemberStartTimeout for a pod that is not ready,
// such as one on an unreachable node. After that, the members whose sidecars have registered must be a quorum.
func (s *scenario) checkRegistered(manifest simulator.Manifest) {
	ready, registered := 0, 0
	for _, pod := range s.Objects.Pods {
		if pod.Ready && !pod.Deleting {
			ready++
		}
		if member := s.RunningMember(pod.Ordinal); member != nil && !member.Learner && s.IsConnected(member) && s.Process(pod.UID).HasRegistered {
			registered++
		}
	}
	applied := s.Applied()
	isSame := applied == nil || (manifest.TLS.Peer == "") == (applied.TLS.Peer == "") && manifest.PeerPort == applied.PeerPort
	if isSame || manifest.Replicas == 0 || len(s.Members) < 2 || !etcdcluster.IsQuorate(ready, len(s.Members)) || s.HasRunForeignData {
		return
	}
	for _, pod := range s.Objects.Pods {
		isOverdue := !pod.Ready && s.Now().Sub(pod.CreationTime) >= etcdcluster.MemberStartTimeout
		if process := s.Process(pod.UID); s.RunningMember(pod.Ordinal) == nil || !process.HasServed || process.HasRegistered {
			continue
		}
		if _, voters := s.Voters(); !isOverdue || !etcdcluster.IsQuorate(registered, voters) {
			s.violated("other peer URLs are rendered, which the sidecar of %s reads before it has registered those of its pod, and stops etcd", pod.Name)
		}
	}
}

// checkRepair checks a step that is planned while the spec is not rolled out.
func (s *scenario) checkRepair(step plan.Step) {
	if kind := kindOf(step); kind != "ReplaceClaim" && kind != "DeletePod" && kind != "TakeSnapshot" {
		s.violated("%s although the spec is not rolled out", kind)
	}
}

// runsTwoClusters is true if members respond that belong to different clusters, and one of these clusters has a member list. A member that was
// removed is deleted, so that its cluster does not matter.
func (s *scenario) runsTwoClusters() bool {
	ids := map[uint64]bool{}
	scaleIn := s.Objects.State.ScaleIn
	for _, status := range s.Objects.Etcd.Members {
		isRemoved := scaleIn != nil && status.Ordinal >= int(scaleIn.To) && s.Member(status.Ordinal) == nil
		if status.ClusterID != 0 && !isRemoved {
			ids[status.ClusterID] = true
		}
	}

	return len(ids) > 1 && len(s.Objects.Etcd.MemberList) > 0
}

// checkStep checks a step before it is executed, and returns the check after it.
func (s *scenario) checkStep(step plan.Step) func() {
	kind, object := kindOf(step), plan.MetaOf(step).Object
	if plan.MetaOf(step).UID == "" {
		s.violated("%s %s has no precondition", kind, object)
	}
	if s.runsTwoClusters() && s.Etcd.Spec.Replicas > 0 && kind != "RequestReconcile" {
		s.violated("%s %s while members of two clusters run", kind, object)
	}

	switch step := step.(type) {
	case plan.DeletePod:
		s.checkPod(step.Meta, false)
	case plan.EvictPod:
		s.checkPod(step.Meta, true)
	case plan.ReplaceClaim:
		s.checkReplaceClaim(step)
	case plan.ResizeClaim:
		s.checkResizeClaim(step)
	case plan.DeleteClaim:
		s.checkDeleteClaim(step)
	case plan.RemoveMember:
		s.checkRemoveMember(step)
		s.checkClientsOf(step)
	case plan.ExcludePod:
		s.checkExclusion(step)
	case plan.MoveLeader:
		s.checkMoveLeader(step)
	case plan.RecoverData:
		s.checkRecoverData(step)
	case plan.ResumeJob:
		if s.Objects.State.Recovery.Job == "" {
			s.violated("Job %s is resumed, and it is not recorded that it may copy data", object)
		}
	case plan.CompactHistory:
		s.checkCompaction(step)
	case plan.DefragmentMember:
		s.checkDefragmentation(step)
	case plan.DisarmAlarm:
		s.checkDisarm(step)
	case plan.TakeDeltaSnapshot, plan.CountKeys, plan.RequestSnapshot, plan.SelectPod, plan.RefreshPod, plan.PromoteMember, plan.UpdatePeerURLs, plan.VerifyRestore, plan.DeleteRestoreJob, plan.InspectClaim, plan.ReleaseVolume, plan.RetainVolume, plan.ResetLease, plan.RecreateStatefulSet, plan.RequestReconcile, plan.TakeSnapshot:
	}
	before, all := s.Voters()
	keepsWrites := s.checkStepKeepsWrites(step)
	hasQuorum := s.Leader != 0 && all > 1 && etcdcluster.IsQuorate(before, all)

	return func() {
		keepsWrites()
		if after, allAfter := s.Voters(); hasQuorum && !etcdcluster.IsQuorate(after, allAfter) {
			s.violated("%s %s took the quorum: %d, then %d of %d", kind, object, before, after, all)
		}
	}
}

// checkPod checks that the pod of a healthy member is evicted, and only while all members are healthy.
func (s *scenario) checkPod(meta plan.Meta, isEviction bool) {
	for i := range s.Objects.Pods {
		pod := &s.Objects.Pods[i]
		if pod.Name != meta.Object || pod.UID != meta.UID {
			continue
		}
		s.checkSinglePod(*pod)
		if member := s.RunningMember(pod.Ordinal); s.Objects.State.Surge.IsActive() && member != nil && !member.Learner && s.IsConnected(member) {
			s.violated("%s is deleted during a surge, and its member votes", pod.Name)
		}
		member := s.RunningMember(pod.Ordinal)
		isHealthy := member != nil && !member.Learner && s.IsConnected(member)
		healthy, all := s.ownVoters()
		scaleIn := s.Objects.State.ScaleIn
		if pod.Excluded { // the other members with other data are replaced too
			healthy += s.excludedUnhealthy()
		}
		switch {
		case isHealthy && scaleIn != nil && !scaleIn.Since.IsZero() && pod.Ordinal >= int(scaleIn.To):
			s.violated("%s is replaced, and its voting member does not start again without advertised URLs", pod.Name)
		case isHealthy && pod.Ready && s.Objects.Defragmentation != "":
			s.violated("%s is replaced while an EtcdOpsTask defragments the members", pod.Name)
		case isHealthy && all > 1 && !isEviction && s.IsEvictable(pod):
			s.violated("%s is deleted although it is healthy", pod.Name)
		case isHealthy && all > 1 && healthy < all:
			s.violated("%s is evicted while only %d of %d are healthy", pod.Name, healthy, all)
		}
	}
}

// excludedUnhealthy returns the number of voting members that are not healthy, and that clients do not use because they have other data than a quorum.
func (s *scenario) excludedUnhealthy() int {
	count := 0
	for _, member := range s.Members {
		pod := s.Objects.PodFor(member.Ordinal)
		isHealthy := s.RunningMember(member.Ordinal) != nil && s.IsConnected(member)
		if pod != nil && pod.Excluded && !member.Learner && !isHealthy {
			count++
		}
	}

	return count
}

// ownVoters returns the number of voting members of the Etcd that are healthy, and of all of them. A stopped member of a joined cluster blocks no
// replacement that the quorum allows.
func (s *scenario) ownVoters() (healthy, all int) {
	healthy, all = s.Voters()
	for _, member := range s.Members {
		if member.Learner || !s.IsExisting(member) {
			continue
		}
		all--
		if s.RunningMember(member.Ordinal) != nil && s.IsConnected(member) {
			healthy--
		}
	}

	return healthy, all
}

// checkSinglePod checks that the pod of the only member stays while its node is unreachable. It also stays while the store is unreachable, if
// the pod was ready in the last two minutes.
func (s *scenario) checkSinglePod(pod etcdcluster.Pod) {
	if s.Objects.StatefulSet.SpecReplicas != 1 {
		return
	}
	readyAt := s.Process(pod.UID).LastReadyAt
	isReady := !readyAt.IsZero() && s.operator.Now().Sub(readyAt) < 2*time.Minute // an operator whose clock is ahead does not wait as long
	isStoreUnreachable := helper.IsStoreConfigured(s.Etcd) && s.Store.Down && s.operator.Now().Sub(s.Objects.DeltaSnapshotLease.RenewTime) > 2*time.Minute
	switch node := s.Node(pod.Node); {
	case node != nil && node.Partitioned && !pod.Ready && pod.ContainersReady:
		s.violated("%s is deleted although only its node is unreachable", pod.Name)
	case isReady && isStoreUnreachable:
		s.violated("%s is deleted while the store is unreachable, and was ready at %s", pod.Name, readyAt.Format("15:04:05"))
	}
}

// checkReplaceClaim checks that a lost volume is replaced while there is a quorum, and after a snapshot. Without one, a quorum must have all
// writes, and the member must have been lost for a while.
func (s *scenario) checkReplaceClaim(step plan.ReplaceClaim) {
	volume := s.Volumes[step.Object]
	node := s.Node(volume.Node)
	isLost := volume.Lost || node.Gone || node.OutOfService
	if ordinal := slices.IndexFunc(s.Objects.Claims, func(c etcdcluster.Claim) bool { return c.Name == step.Object }); (!isLost || s.NetworkVolumes && !volume.Lost) && s.isDiffering(s.Objects.Claims[ordinal].Ordinal) {
		s.checkReplaceDiffering(step, s.Objects.Claims[ordinal].Ordinal)

		return
	}
	if !isLost {
		s.violated("claim %s is deleted although its volume is not lost", step.Object)
	}
	if healthy, all := s.Voters(); !etcdcluster.IsQuorate(healthy, all) || s.Leader == 0 {
		s.violated("claim %s is deleted without a quorum", step.Object)
	}
	if !helper.IsStoreConfigured(s.Etcd) || volume.Lost || s.Objects.SnapshotAttempts.Verified != nil {
		return
	}
	s.steps["ReplaceClaim without the store"]++
	if recorded := s.Objects.State.Evidence; recorded == nil || recorded.HighestRevision != s.Data.Revision {
		s.violated("claim %s is deleted without a snapshot, and without a record of revision %d", step.Object, s.Data.Revision)
	}
	for ordinal, claim := range s.Objects.Claims {
		for _, lease := range s.Objects.MemberLeases {
			if claim.Name == step.Object && lease.Name == helper.MemberName(s.Etcd, ordinal) && s.Now().Sub(lease.RenewTime) < s.operator.Config.StoreTimeout {
				s.violated("claim %s is deleted without a snapshot, %s after the last heartbeat", step.Object, s.Now().Sub(lease.RenewTime))
			}
		}
	}
}

// correctData returns the corruption that the volumes of a quorum of all voting members have. It is unlike all others if no quorum has the same.
func (s *scenario) correctData() uint32 {
	count, voters := map[uint32]int{}, 0
	for _, member := range s.Members {
		if volume := s.volumeOf(member); !member.Learner && volume != nil {
			count[volume.Corruption]++
		}
		if !member.Learner {
			voters++
		}
	}
	for corruption, members := range count {
		if etcdcluster.IsQuorate(members, voters) {
			return corruption
		}
	}

	return unknownData
}

// unknownData is a corruption that no volume has.
const unknownData = math.MaxUint32

// volumeOf returns the volume of a member of the Etcd. Nil: there is none, or it has no data of the member.
func (s *scenario) volumeOf(m *simulator.Member) *simulator.Volume {
	volume := s.Volumes[helper.ClaimName(s.Etcd, m.Ordinal)]
	if s.IsExisting(m) || volume == nil || volume.Member != m.ID {
		return nil
	}

	return volume
}

// isDiffering is true for a member with other data than a quorum that runs, or that clients do not use because of its data.
func (s *scenario) isDiffering(ordinal int) bool {
	pod, member := s.Objects.PodFor(ordinal), s.Member(ordinal)
	isRunning := member != nil && s.RunningMember(ordinal) != nil && s.IsConnected(member)
	volume := s.Volumes[helper.ClaimName(s.Etcd, ordinal)]

	return pod != nil && pod.Excluded || isRunning && volume.Corruption != s.correctData()
}

// checkReplaceDiffering checks that the volume of a member is replaced whose data differs from that of a quorum of all voting members. Clients do not
// reach it, it does not lead, all others are healthy, and the volume stays. The store has a snapshot, or three attempts have failed.
func (s *scenario) checkReplaceDiffering(step plan.ReplaceClaim, ordinal int) {
	volume, healthy := s.Volumes[step.Object], 0
	correct := s.correctData()
	if correct == unknownData || s.Objects.State.Inconsistency == nil {
		s.violated("claim %s is deleted, and no quorum has the same data", step.Object)
	}
	for _, member := range s.Members {
		other := s.volumeOf(member)
		if other != nil && other.Corruption == correct && s.RunningMember(member.Ordinal) != nil && s.IsConnected(member) && !member.Learner {
			healthy++
		}
		if member.Ordinal != ordinal {
			continue
		}
		if pod := s.Objects.PodFor(member.Ordinal); pod == nil || !pod.Excluded || !s.Applied().ExcludesPods {
			s.violated("claim %s is deleted, and clients can use its member", step.Object)
		}
		if s.Leader == member.ID {
			s.violated("claim %s of the leader is deleted", step.Object)
		}
	}
	if _, all := s.Voters(); !etcdcluster.IsQuorate(healthy, all) {
		s.violated("claim %s is deleted, and only %d of %d members have the correct data and are healthy", step.Object, healthy, all)
	}
	if volume.Policy != corev1.PersistentVolumeReclaimRetain && !volume.Static {
		s.violated("claim %s is deleted, and nothing keeps its volume", step.Object)
	}
	if attempts := s.Objects.SnapshotAttempts; helper.IsStoreConfigured(s.Etcd) && !attempts.IsFresh(s.Now()) && attempts.Unsuccessful() == 0 {
		s.violated("claim %s is deleted without an attempt to take a snapshot", step.Object)
	}
}

// isRemoved is true for the claim of a member that a scale-in, a surge or a volume migration has removed.
func (s *scenario) isRemoved(claim string) bool {
	scaleIn := s.Objects.State.ScaleIn
	if volume := s.Volumes[claim]; s.Objects.State.Surge.IsActive() && volume != nil {
		return !slices.ContainsFunc(s.Members, func(m *simulator.Member) bool { return m.ID == volume.Member })
	}
	for _, c := range s.Objects.Claims {
		if migration := s.Objects.State.Migration; c.Name == claim && migration.IsActive() && migration.Claim == c.UID {
			volume := s.Volumes[claim]

			return volume == nil || !slices.ContainsFunc(s.Members, func(m *simulator.Member) bool { return m.ID == volume.Member && !m.Learner })
		}
		if c.Name == claim && scaleIn != nil && c.Ordinal >= int(scaleIn.To) {
			return s.Member(c.Ordinal) == nil
		}
	}

	return false
}

// checkRemoveMember checks that a member is removed that leaves, and that it does not lead. Before a healthy member is removed as the first one,
// all members that stay are healthy.
func (s *scenario) checkRemoveMember(step plan.RemoveMember) {
	if at := slices.IndexFunc(s.Members, func(m *simulator.Member) bool { return m.ID == step.Member }); at >= 0 && s.IsExisting(s.Members[at]) {
		s.checkRemoveExisting(step, s.Members[at])

		return
	}
	scaleIn := s.Objects.State.ScaleIn
	if s.Objects.State.Surge.IsActive() {
		s.checkRemoveSurgeMember(step)

		return
	}
	if migration := s.Objects.State.Migration; migration.IsActive() && migration.Claim != "" {
		s.checkRemoveMigrating(step)

		return
	}
	if scaleIn == nil || !scaleIn.Removing {
		s.violated("member %s is removed, and no scale-in is recorded", step.Name)

		return
	}
	healthy, all := s.Voters()
	for _, member := range s.Members {
		switch {
		case member.ID != step.Member:
		case s.RunningMember(member.Ordinal) == nil || member.Learner || !s.IsConnected(member):
			return // its removal costs no tolerance
		case member.Ordinal < int(scaleIn.To):
			s.violated("member %d is removed from a cluster that keeps %d", member.Ordinal, scaleIn.To)
		case s.Leader == member.ID:
			s.violated("the leader %d is removed", member.Ordinal)
		}
		if pod := s.Objects.PodFor(member.Ordinal); member.ID == step.Member && !s.hasLeft(pod) {
			s.violated("member %d is removed, and its sidecar can add it again", member.Ordinal)
		}
	}
	if all != int(s.Objects.State.Size) {
		return
	}
	for ordinal := range int(scaleIn.To) {
		if member := s.RunningMember(ordinal); member == nil || member.Learner || !s.IsConnected(member) {
			s.violated("the first member is removed with %d of %d healthy, and member %d is not healthy", healthy, all, ordinal)
		}
	}
}

// checkClientsOf checks that the client Service sends no new connections to a member that is removed, and that all nodes know it.
func (s *scenario) checkClientsOf(step plan.RemoveMember) {
	for _, member := range s.Members {
		pod := s.Objects.PodFor(member.Ordinal)
		if member.ID != step.Member || s.IsExisting(member) || pod == nil || !pod.Ready || pod.Deleting {
			continue
		}
		if s.Applied().Selects(*pod) {
			s.violated("member %s is removed, and the client Service selects its pod", step.Name)
		}
		if at, is := s.invariants.excluded[pod.UID]; is && s.Now().Sub(at) <= 5*time.Second { // it is observed after a tick
			s.violated("member %s is removed, and nodes may send new connections to its pod", step.Name)
		}
	}
}

// checkExclusion checks that the client Service selects another healthy member when a pod is excluded. The selection of a pod that ends is not checked.
func (s *scenario) checkExclusion(step plan.ExcludePod) {
	isSelected := func(m *simulator.Member) bool {
		pod := s.Objects.PodFor(m.Ordinal)

		return pod != nil && pod.Name != step.Object && !m.Learner && s.RunningMember(m.Ordinal) != nil && s.IsConnected(m) && s.Applied().Selects(*pod)
	}
	if step.Excluded && !slices.ContainsFunc(s.Members, isSelected) {
		s.violated("pod %s is excluded, and the client Service selects no other healthy member", step.Object)
	}
	if s.invariants.excluded == nil {
		s.invariants.excluded = map[types.UID]time.Time{}
	}
	s.invariants.excluded[step.UID] = s.Now()
}

// hasLeft is true for a pod in whose configuration its member has no advertised URLs.
func (s *scenario) hasLeft(pod *etcdcluster.Pod) bool {
	remaining := s.Process(pod.UID).Remaining

	return remaining > 0 && pod.Ordinal >= int(remaining)
}

// checkMoveLeader checks that the leadership is transferred to a healthy voting member of the Etcd, which does not leave.
func (s *scenario) checkMoveLeader(step plan.MoveLeader) {
	at := slices.IndexFunc(s.Members, func(m *simulator.Member) bool { return m.ID == step.To })
	if at < 0 {
		s.violated("the leadership is transferred to %x, which is no member", step.To)

		return
	}
	to, scaleIn := s.Members[at], s.Objects.State.ScaleIn
	switch {
	case to.Learner || s.RunningMember(to.Ordinal) == nil || !s.IsConnected(to):
		s.violated("the leadership is transferred to member %d, which is no healthy voting member", to.Ordinal)
	case s.IsExisting(to):
		s.violated("the leadership is transferred to a member of the joined cluster")
	case scaleIn != nil && scaleIn.Removing && !scaleIn.Since.IsZero() && to.Ordinal >= int(scaleIn.To):
		s.violated("the leadership is transferred to member %d, which leaves", to.Ordinal)
	}
}

// checkRemoveExisting checks that a member of the joined cluster is removed that the spec does not name, after a verified snapshot. A voting
// member is removed only while all members of the Etcd are healthy voting members. Members that leave and do not vote are an exception. The leader is
// the last one.
func (s *scenario) checkRemoveExisting(step plan.RemoveMember, removed *simulator.Member) {
	recorded, others := s.Objects.State.Existing, 0
	listed := etcdcluster.ListedLeaving(s.acceptedEtcd(), s.Observe())
	switch {
	case !removed.Learner && (recorded == nil || recorded.Voters == 0):
		s.violated("member %s of the joined cluster is removed, and no removal is recorded", step.Name)
	case !slices.ContainsFunc(listed, func(m etcdcluster.ListedMember) bool { return m.ID == step.Member }):
		s.violated("member %s of the joined cluster is removed, and the spec names it", step.Name)
	}
	if removed.Learner {
		return
	}
	for ordinal := range int(s.Objects.State.Size) {
		staying := s.Etcd.Spec.Replicas
		if scaleIn := s.Objects.State.ScaleIn; scaleIn != nil {
			staying = min(staying, scaleIn.To)
		}
		if listed := s.Member(ordinal); ordinal >= int(staying) && (listed == nil || listed.Learner) {
			continue
		}
		if member := s.RunningMember(ordinal); member == nil || member.Learner || !s.IsConnected(member) {
			s.violated("member %s of the joined cluster is removed while member %d is not healthy", step.Name, ordinal)
		}
	}
	for _, member := range listed {
		if !member.Learner && member.ID != step.Member {
			others++
		}
	}
	if s.Leader == removed.ID && others > 0 {
		s.violated("the leader %s is removed before %d other members of the joined cluster", step.Name, others)
	}
}

// acceptedEtcd is the Etcd with the spec that was accepted last.
func (s *scenario) acceptedEtcd() *druidv1alpha1.Etcd {
	etcd := s.Etcd.DeepCopy()
	if accepted := s.Objects.State.Accepted; accepted != nil && accepted.Spec != nil {
		etcd.Spec = *accepted.Spec
	}

	return etcd
}

// checkComplete checks that a generation that is reported as complete is what its spec requests. It compares the pods, their images and ports, the claims,
// and the voting members. It reads what the operator has observed. The claims of an earlier Etcd of the same name may be of another class or,
// if they cannot be expanded, smaller. So may that of a single member without a surge. Its spec may have requested other volumes with more members,
// or with a surge.
func (s *scenario) checkComplete() {
	run := s.result.Newest
	if s.result.State != druidv1alpha1.LastOperationStateSucceeded || s.result.KeepOperation || s.result.Accepted != nil || !run.Applied || run.Plan.Stage != plan.StageDone {
		return
	}
	etcd, o := run.Target.Etcd, run.Observation
	if size := int(etcd.Spec.Replicas); len(o.Pods) != size || len(o.Etcd.MemberList) > 0 && len(o.Etcd.MemberList) != size+s.existingIn(o) {
		s.violated("%d pods and %d members are complete, and %d are requested", len(o.Pods), len(o.Etcd.MemberList), size)
	}
	for _, pod := range o.Pods {
		claim, class := o.ClaimFor(pod.Ordinal), ptr.Deref(etcd.Spec.StorageClass, "")
		isKept := claim.CreationTime.Before(etcd.CreationTimestamp.Time) || etcd.Spec.Replicas == 1 && !helper.UsesSurge(etcd)
		switch {
		case pod.Containers[0].Image != s.image || pod.PeerPort != helper.PeerPort(etcd):
			s.violated("%s is complete with image %s and port %d, and %s and %d are requested", pod.Name, pod.Containers[0].Image, pod.PeerPort, s.image, helper.PeerPort(etcd))
		case class != "" && claim.StorageClass != class && !isKept, claim.Requested < new(helper.StorageCapacity(etcd)).Value() && (!isKept || ptr.Deref(claim.Expandable, true)):
			s.violated("claim %s is complete with class %s and %d bytes, and %s and %s are requested", claim.Name, claim.StorageClass, claim.Requested, class, new(helper.StorageCapacity(etcd)).String())
		}
	}
}

// existingIn returns the number of members of the joined cluster in an observation.
func (s *scenario) existingIn(o etcdcluster.Observation) int {
	count := 0
	for _, listed := range o.Etcd.MemberList {
		if at := slices.IndexFunc(s.Members, func(m *simulator.Member) bool { return m.ID == listed.ID }); at >= 0 && s.IsExisting(s.Members[at]) {
			count++
		}
	}

	return count
}

// evenTimeout is how long a removal may leave an even number of voting members while the next removal is allowed. Expansions of volumes come first.
const evenTimeout = time.Minute

// checkEven checks that the removal of members of the joined cluster does not stop at an even number of voting members. It may stop while
// a member of the Etcd is not healthy, or no spec is rolled out.
func (s *scenario) checkEven() {
	healthy, all := s.Voters()
	recorded := s.Objects.State.Existing
	hasVoter := slices.ContainsFunc(etcdcluster.ListedLeaving(s.acceptedEtcd(), s.Observe()), func(m etcdcluster.ListedMember) bool { return !m.Learner })
	isPaused := all%2 == 1 || s.Leader == 0 || healthy < all || !s.operator.Config.AutoReconcile || recorded == nil || recorded.Voters == 0 ||
		!hasVoter || s.runsTwoClusters()
	for _, pod := range s.Objects.Pods {
		isPaused = isPaused || !pod.Ready
	}
	switch {
	case isPaused:
		s.invariants.evenSince = time.Time{}
	case s.invariants.evenSince.IsZero():
		s.invariants.evenSince = s.Now()
	case s.Now().Sub(s.invariants.evenSince) > evenTimeout:
		s.violated("%d members vote since %s, and no member is removed", all, s.invariants.evenSince.Format("15:04:05"))
		s.invariants.evenSince = time.Time{}
	}
}

// checkRemoveSurgeMember checks that the other member is a healthy voting member, and that the one that is removed neither leads nor can add itself
// again.
func (s *scenario) checkRemoveSurgeMember(step plan.RemoveMember) {
	for _, member := range s.Members {
		isHealthy := s.RunningMember(member.Ordinal) != nil && !member.Learner && s.IsConnected(member)
		pod := s.Objects.PodFor(member.Ordinal)
		switch {
		case member.ID != step.Member && !isHealthy:
			s.violated("member %s is removed, and member %d is no healthy voting member", step.Name, member.Ordinal)
		case member.ID == step.Member && s.Leader == member.ID:
			s.violated("the leader %s is removed", step.Name)
		case member.ID == step.Member && pod != nil && !pod.Deleting && s.Process(pod.UID).Withdrawn != int32(member.Ordinal)+1: // #nosec G115 -- 0 or 1
			s.violated("member %s is removed, and its sidecar can add it again", step.Name)
		}
	}
}

// checkRemoveMigrating checks that the member of the recorded claim is removed, and that it does not lead. All others are healthy, and one of them can
// fail afterwards.
func (s *scenario) checkRemoveMigrating(step plan.RemoveMember) {
	healthy, all := s.ownVoters()
	isLearner := slices.ContainsFunc(s.Members, func(m *simulator.Member) bool { return m.ID == step.Member && m.Learner })
	if !isLearner && (healthy < all || !etcdcluster.IsQuorate(healthy-2, all-1)) {
		s.violated("member %s is removed for its volume with %d of %d healthy", step.Name, healthy, all)
	}
	for _, member := range s.Members {
		if member.ID != step.Member {
			continue
		}
		if claim := s.Objects.ClaimFor(member.Ordinal); claim == nil || claim.UID != s.Objects.State.Migration.Claim {
			s.violated("member %s is removed, and another claim is recorded", step.Name)
		}
		if s.Leader == member.ID {
			s.violated("the leader %s is removed", step.Name)
		}
	}
}

// checkResizeClaim checks that a size that the API server refused less than a minute ago is not requested again.
func (s *scenario) checkResizeClaim(step plan.ResizeClaim) {
	for _, claim := range s.Objects.Claims {
		if claim.Name == step.Object && claim.RefusedSize == step.Size {
			s.violated("%d bytes are requested again for claim %s, which was refused", step.Size, claim.Name)
		}
	}
}

// checkDeleteClaim checks that the volumes of a cluster that is restored are deleted after its pods, and after the restore was verified. The
// volume of a removed member is deleted after its removal.
func (s *scenario) checkDeleteClaim(step plan.DeleteClaim) {
	if s.isRemoved(step.Object) || s.Volumes[step.Object] == nil {
		return
	}
	if len(s.Objects.Pods) > 0 {
		s.violated("%s is deleted while there are pods", step.Object)
	}
	volume := s.Volumes[step.Object]
	if volume == nil || volume.Member == 0 || volume.Lost || s.Node(volume.Node).Gone {
		return
	}
	if !s.Objects.RestoreVerification.Succeeded && !s.invariants.isUnverified {
		s.violated("%s is deleted, and no Job has verified the restore", step.Object)
	}
}
