// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Types of the conditions of an Etcd.
const (
	// ConditionTypeReady is what clients see: it is True when a quorum of the members is healthy, and the client Service has an endpoint.
	ConditionTypeReady ConditionType = "Ready"
	// ConditionTypeAllMembersReady is True when every member of the desired cluster serves.
	ConditionTypeAllMembersReady ConditionType = "AllMembersReady"
	// ConditionTypeAllMembersUpdated is True when every pod runs the latest rendered manifests.
	ConditionTypeAllMembersUpdated ConditionType = "AllMembersUpdated"
	// ConditionTypeBackupReady is True when both full and delta snapshots are up to date. Absent without a store.
	ConditionTypeBackupReady ConditionType = "BackupReady"
	// ConditionTypeDataVolumesReady is True when no data volume has warnings.
	ConditionTypeDataVolumesReady ConditionType = "DataVolumesReady"
	// ConditionTypeClusterIDMismatch is True when members belong to different clusters: a split brain.
	ConditionTypeClusterIDMismatch ConditionType = "ClusterIDMismatch"
	// ConditionTypeBootstrappedWithExistingCluster is True once the members joined the cluster of
	// spec.etcd.bootstrapWithExistingCluster, and stays so. Absent when none is named, and after the removal of its members.
	ConditionTypeBootstrappedWithExistingCluster ConditionType = "BootstrappedWithExistingCluster"
	// ConditionTypeScaleOperationComplete is False while members are added or removed, and True otherwise. Until it is True again, the API server
	// rejects a change of the size in the opposite direction. Absent before members run.
	ConditionTypeScaleOperationComplete ConditionType = "ScaleOperationComplete"
	// ConditionTypeLastSnapshotCompactionSucceeded is True when the last compaction of snapshots ended well.
	ConditionTypeLastSnapshotCompactionSucceeded ConditionType = "LastSnapshotCompactionSucceeded"
	// ConditionTypeReconciled is True when the cluster is as the spec describes it. Otherwise, its message says what is done now and what it waits
	// for, or why nothing is done.
	ConditionTypeReconciled ConditionType = "Reconciled"
	// ConditionTypeSecretsValid is True when every Secret of the pods exists with its keys, none is being deleted, and every certificate in use is
	// valid.
	ConditionTypeSecretsValid ConditionType = "SecretsValid"
	// ConditionTypeStoreResolved is True when provider, container, prefix and credentials of the store are known. Absent
	// without a store.
	ConditionTypeStoreResolved ConditionType = "StoreResolved"
	// ConditionTypeFinalSnapshotTaken is True when a full snapshot holds all that was written before the members stopped, to
	// hibernate or to be deleted with their volumes. It is also True when nothing was written. Absent while they run, and
	// without a store.
	ConditionTypeFinalSnapshotTaken ConditionType = "FinalSnapshotTaken"
	// ConditionTypeRevisionConfirmed is True while no quorum returns a lower revision than an earlier one. Absent until a
	// revision is recorded.
	ConditionTypeRevisionConfirmed ConditionType = "RevisionConfirmed"
	// ConditionTypeQuorumRecoverable exists while so many voting members have lost their data that the others can never be a quorum again. It is True
	// while the operator recovers the cluster. Otherwise it is False, and the message contains the options with their tokens.
	ConditionTypeQuorumRecoverable ConditionType = "QuorumRecoverable"
	// ConditionTypeDatabaseSpaceAvailable is False while a database has reached its quota, and etcd rejects writes. It is also
	// False if that is soon the case. Absent until a member has responded.
	ConditionTypeDatabaseSpaceAvailable ConditionType = "DatabaseSpaceAvailable"
	// ConditionTypeDataConsistent is False while comparisons have found, or etcd reports, that members have different data. Absent until
	// a member has responded.
	ConditionTypeDataConsistent ConditionType = "DataConsistent"
	// ConditionTypeRestoreProven is True while a restore drill has proven, recently enough, that the snapshots in the store can be restored. Absent
	// until the first drill has ended.
	ConditionTypeRestoreProven ConditionType = "RestoreProven"
	// ConditionTypeDefaultsUpdated exists while newer defaults of the operator, such as images, wait because the operator limits how many Etcds
	// change at once. It also exists while such a change of this Etcd has failed. It is Progressing while the Etcd waits, and False when the change
	// of other Etcds, or of this one, has failed.
	ConditionTypeDefaultsUpdated ConditionType = "DefaultsUpdated"
)

// Reasons that several conditions share.
const (
	// ReasonCertificatesInvalid means that a certificate is expired or not yet valid, or that no TLS handshake with a member succeeds.
	ReasonCertificatesInvalid = "CertificatesInvalid"
	// ReasonNotChecked means that the cluster hibernates, so that nothing can be observed.
	ReasonNotChecked = "NotChecked"
	// ReasonNoMembersInStatus means that no member has been seen yet.
	ReasonNoMembersInStatus = "NoMembersInStatus"
	// ReasonStatefulSetNotFound means that the StatefulSet does not exist.
	ReasonStatefulSetNotFound = "StatefulSetNotFound"
	// ReasonUnableToFetchStatefulSet means that the StatefulSet could not be read.
	ReasonUnableToFetchStatefulSet = "UnableToFetchStatefulSet"
	// ReasonUnableToFetchLease means that a lease could not be read.
	ReasonUnableToFetchLease = "UnableToFetchLease"
	// ReasonUnknown means that the facts at hand allow no decision; the message says which are missing.
	ReasonUnknown = "Unknown"
)

// Reasons of the condition Ready.
const (
	// ReasonQuorate means that a quorum of the desired cluster serves.
	ReasonQuorate = "Quorate"
	// ReasonQuorumLost means that fewer members than a quorum serve.
	ReasonQuorumLost = "QuorumLost"
	// ReasonCreating means that the voting members of a new cluster serve, and are fewer than a quorum of the requested ones.
	ReasonCreating = "Creating"
	// ReasonNoReadyEndpoint means that a quorum is healthy, and that no pod is ready, so that the client Service has no endpoint.
	ReasonNoReadyEndpoint = "NoReadyEndpoint"
	// ReasonAuthenticationRequired means the same, and that etcd refuses reads without a user, also those of the readiness probes.
	ReasonAuthenticationRequired = "AuthenticationRequired"
)

// Reasons of the condition QuorumRecoverable.
const (
	// ReasonChoiceRequired means that a user has to choose an option.
	ReasonChoiceRequired = "ChoiceRequired"
	// ReasonRecoveryPending means that the operator chooses an option by the recovery policy after a time.
	ReasonRecoveryPending = "RecoveryPending"
	// ReasonRecovering means that the operator recovers the cluster from the chosen data.
	ReasonRecovering = "Recovering"
	// ReasonRecoveryForbidden means that the recovery policy is Never.
	ReasonRecoveryForbidden = "RecoveryForbidden"
	// ReasonNothingToRecoverFrom means that there is no data from which the operator can recover the cluster.
	ReasonNothingToRecoverFrom = "NothingToRecoverFrom"
)

// Reasons of the condition DefaultsUpdated.
const (
	// ReasonWaitingForCanary means that other Etcds are updated first.
	ReasonWaitingForCanary = "WaitingForCanary"
	// ReasonWaitingForSlot means that as many Etcds are updated as the limits allow.
	ReasonWaitingForSlot = "WaitingForSlot"
	// ReasonRolloutStopped means that the change of other Etcds has failed, so that no other one follows.
	ReasonRolloutStopped = "RolloutStopped"
	// ReasonUpdateFailed means that the members are not ready with the newer defaults, or that their pods were not replaced.
	ReasonUpdateFailed = "UpdateFailed"
)

// Reasons of the condition AllMembersReady.
const (
	// ReasonAllMembersReady means that every member of the desired cluster serves.
	ReasonAllMembersReady = "AllMembersReady"
	// ReasonNotAllMembersReady means that a member is missing or not healthy.
	ReasonNotAllMembersReady = "NotAllMembersReady"
	// ReasonRaftSnapshotBlocked means that a member with peer TLS is not healthy, and may wait for a raft snapshot. A leader without peer TLS
	// cannot send it.
	ReasonRaftSnapshotBlocked = "RaftSnapshotBlocked"
)

// Reasons of the condition AllMembersUpdated.
const (
	// ReasonAllMembersUpdated means that every pod runs the latest rendered manifests.
	ReasonAllMembersUpdated = "AllMembersUpdated"
	// ReasonNotAllMembersUpdated means that a pod runs an older rendering, or that the newest is not applied yet.
	ReasonNotAllMembersUpdated = "NotAllMembersUpdated"
)

// Reasons of the condition BackupReady.
const (
	// ReasonBackupSucceeded means that full and delta snapshots are up to date.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonTooManySnapshots means that far more full snapshots are taken than the schedule requests.
	ReasonTooManySnapshots = "TooManySnapshots"
	// ReasonFullSnapshotOverdue means that the newest full snapshot is older than the schedule demands.
	ReasonFullSnapshotOverdue = "FullSnapshotOverdue"
	// ReasonDeltaSnapshotOverdue means that the newest delta snapshot is older than its period demands.
	ReasonDeltaSnapshotOverdue = "DeltaSnapshotOverdue"
	// ReasonLostRevisionInStore means that the newest snapshot in the store has a revision that no member has. The cluster was rolled back, and a
	// restore would use that snapshot.
	ReasonLostRevisionInStore = "LostRevisionInStore"
	// ReasonWaitingForFirstSnapshot means that no snapshot was taken yet, and none is overdue.
	ReasonWaitingForFirstSnapshot = "WaitingForFirstSnapshot"
)

// Reasons of the condition DataVolumesReady.
const (
	// ReasonNoWarningsFoundForDataVolumes means that no volume claim has warnings.
	ReasonNoWarningsFoundForDataVolumes = "NoWarningsFoundForDataVolumes"
	// ReasonFoundWarningsForDataVolumes means that an unbound volume claim has warnings, quoted in the message.
	ReasonFoundWarningsForDataVolumes = "FoundWarningsForDataVolumes"
	// ReasonUnableToFetchWarningEventsForDataVolumes means that the events of volume claims could not be read.
	ReasonUnableToFetchWarningEventsForDataVolumes = "UnableToFetchWarningEventsForDataVolumes"
)

// Reasons of the condition ClusterIDMismatch.
const (
	// ReasonNoClusterIDMismatchDetected means that all members belong to one cluster.
	ReasonNoClusterIDMismatchDetected = "NoClusterIDMismatchDetected"
	// ReasonMultipleClusterIDsDetected means that members belong to different clusters.
	ReasonMultipleClusterIDsDetected = "MultipleClusterIDsDetected"
	// ReasonNoClusterIDDetected means that the cluster ID of no member is known yet.
	ReasonNoClusterIDDetected = "NoClusterIDDetected"
	// ReasonUnableToParseLeaseHolderIdentity means that a member lease holds something that the sidecar does not write.
	ReasonUnableToParseLeaseHolderIdentity = "UnableToParseLeaseHolderIdentity"
)

// Reasons of the condition RevisionConfirmed.
const (
	// ReasonRevisionConfirmed means that no quorum has returned a lower revision than an earlier one.
	ReasonRevisionConfirmed = "RevisionConfirmed"
	// ReasonRevisionRolledBack means that a quorum has returned a lower revision than an earlier one: writes are lost.
	ReasonRevisionRolledBack = "RevisionRolledBack"
)

// Reasons of the condition DataConsistent.
const (
	// ReasonDifferentData means that three comparisons of all voting members have found the same difference.
	ReasonDifferentData = "DifferentData"
	// ReasonDifferenceNotConfirmed means that fewer comparisons have found it.
	ReasonDifferenceNotConfirmed = "DifferenceNotConfirmed"
	// ReasonNoCorruptAlarm means that no comparison has found different data, and that no alarm CORRUPT is raised.
	ReasonNoCorruptAlarm = "NoCorruptAlarm"
	// ReasonCorruptAlarmRaised means that etcd has raised the alarm CORRUPT: it rejects all writes.
	ReasonCorruptAlarmRaised = "CorruptAlarmRaised"
)

// Reasons of the condition RestoreProven.
const (
	// ReasonRestoreProven means that the snapshots contain what the cluster contained, and that the sidecar restored it.
	ReasonRestoreProven = "RestoreProven"
	// ReasonSnapshotDamaged means that the content of a snapshot is not what the sidecar wrote.
	ReasonSnapshotDamaged = "SnapshotDamaged"
	// ReasonEventsMissing means that events between two snapshots are missing.
	ReasonEventsMissing = "EventsMissing"
	// ReasonDeltaSnapshotsOverlap means that two delta snapshots contain the same events.
	ReasonDeltaSnapshotsOverlap = "DeltaSnapshotsOverlap"
	// ReasonHistoriesDiffer means that the snapshots are from before and after a loss of data, or that an event is missing.
	ReasonHistoriesDiffer = "HistoriesDiffer"
	// ReasonHashDiffers means that the snapshots do not contain what the cluster contained.
	ReasonHashDiffers = "HashDiffers"
	// ReasonMembersDiffer means that the members have different data at the same revision. The drill has ended without a comparison of the snapshots.
	ReasonMembersDiffer = "MembersDiffer"
	// ReasonNoSnapshot means that the store contains no full snapshot.
	ReasonNoSnapshot = "NoSnapshot"
	// ReasonRestoreFailed means that the sidecar could not restore the snapshots.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonRestoreDiffers means that the sidecar restored something else than the snapshots contain.
	ReasonRestoreDiffers = "RestoreDiffers"
	// ReasonDrillIncomplete means that the last drill did not end, so that nothing is known, for example because the store did not respond.
	ReasonDrillIncomplete = "DrillIncomplete"
	// ReasonDrillPending means that something blocks the first scheduled drill.
	ReasonDrillPending = "DrillPending"
	// ReasonProofOutdated means that the last proof is older than two periods, or that there is none after two periods.
	ReasonProofOutdated = "ProofOutdated"
)

// Reasons of the condition DatabaseSpaceAvailable.
const (
	// ReasonSpaceAvailable means that no alarm NOSPACE is raised.
	ReasonSpaceAvailable = "SpaceAvailable"
	// ReasonNoSpace means that etcd has raised the alarm NOSPACE: it rejects writes until the operator has freed space.
	ReasonNoSpace = "NoSpace"
	// ReasonFreeingSpaceBlocked means the same, and that the operator cannot free enough space. The message contains the reason.
	ReasonFreeingSpaceBlocked = "FreeingSpaceBlocked"
	// ReasonDefragmentationRefused means that the operator does not start a planned defragmentation. The message contains the reason and the remedy.
	ReasonDefragmentationRefused = "DefragmentationRefused"
	// ReasonQuotaReachedSoon means that the keys need the quota within a day, if they continue to increase.
	ReasonQuotaReachedSoon = "QuotaReachedSoon"
)

// Reasons of the condition BootstrappedWithExistingCluster.
const (
	// ReasonBootstrapInProgress means that not every member has joined yet.
	ReasonBootstrapInProgress = "BootstrapInProgress"
	// ReasonBootstrapSucceeded means that every member has joined.
	ReasonBootstrapSucceeded = "BootstrapSucceeded"
)

// Reasons of the condition ScaleOperationComplete.
const (
	// ReasonScalingIn means that members of the cluster are removed.
	ReasonScalingIn = "ScalingIn"
	// ReasonBootstrapMembersRemoval means that members of the joined cluster are removed.
	ReasonBootstrapMembersRemoval = "BootstrapMembersRemoval"
	// ReasonRemovalPending means that members are to be removed, and none was removed yet. The previous spec is still valid.
	ReasonRemovalPending = "RemovalPending"
	// ReasonJoinPending means that members are to be added, and no learner has joined. The size before is still valid.
	ReasonJoinPending = "JoinPending"
	// ReasonScalingOut means that members are added.
	ReasonScalingOut = "ScalingOut"
	// ReasonNoScaleOperation means that no member is added or removed.
	ReasonNoScaleOperation = "NoScaleOperation"
)

// Reasons of the condition LastSnapshotCompactionSucceeded. Their Go names come from the API module of etcd-druid.
const (
	// PodSuccessReasonNone means that the Job succeeded.
	PodSuccessReasonNone = "None"
	// FullSnapshotSuccessReason means that a full snapshot was taken instead of running a Job.
	FullSnapshotSuccessReason = "FullSnapshotTakenSuccessfully"
	// FullSnapshotFailureReason means that a full snapshot should have been taken instead of running a Job, and failed.
	FullSnapshotFailureReason = "ErrorTriggeringFullSnapshot"
	// JobFailureReasonDeadlineExceeded means that the Job ran for too long.
	JobFailureReasonDeadlineExceeded = "DeadlineExceeded"
	// JobFailureReasonBackoffLimitExceeded means that the Job failed too often.
	JobFailureReasonBackoffLimitExceeded = "BackoffLimitExceeded"
	// PodFailureReasonPreemptionByScheduler means that the pod was preempted by a pod with a higher priority.
	PodFailureReasonPreemptionByScheduler = "PreemptionByScheduler"
	// PodFailureReasonDeletionByTaintManager means that the pod's node was tainted.
	PodFailureReasonDeletionByTaintManager = "DeletionByTaintManager"
	// PodFailureReasonEvictionByEvictionAPI means that the pod was evicted.
	PodFailureReasonEvictionByEvictionAPI = "EvictionByEvictionAPI"
	// PodFailureReasonTerminationByKubelet means that the kubelet ended the pod.
	PodFailureReasonTerminationByKubelet = "TerminationByKubelet"
	// PodFailureReasonProcessFailure means that the process in the pod failed.
	PodFailureReasonProcessFailure = "ProcessFailure"
	// PodFailureReasonUnknown means that the status of the pod contains no reason.
	PodFailureReasonUnknown = "Unknown"
)

// Reasons of the condition Reconciled.
const (
	// ReasonReconciled means that the observed cluster is the desired one.
	ReasonReconciled = "Reconciled"
	// ReasonReconciling means that a step is being done.
	ReasonReconciling = "Reconciling"
	// ReasonWaiting means that a step waits for something outside of the operator's hands, named in the message.
	ReasonWaiting = "Waiting"
	// ReasonInvalidSpec means that the spec is not valid; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonSuspended means that an annotation suspends the reconciliation of the spec.
	ReasonSuspended = "Suspended"
	// ReasonOperationAnnotationMissing means that a newer spec waits for the operation annotation.
	ReasonOperationAnnotationMissing = "OperationAnnotationMissing"
)

// Reasons of the condition SecretsValid.
const (
	// ReasonSecretsValid means that every Secret exists with every key, and that every certificate is valid for a time to come.
	ReasonSecretsValid = "SecretsValid"
	// ReasonSecretsMissing means that a Secret or a key in one is missing, named in the message.
	ReasonSecretsMissing = "SecretsMissing"
	// ReasonSecretsTerminating means that a Secret is being deleted, named in the message. It exists until nothing uses it.
	ReasonSecretsTerminating = "SecretsTerminating"
	// ReasonUnableToFetchSecrets means that a Secret could not be read.
	ReasonUnableToFetchSecrets = "UnableToFetchSecrets"
	// ReasonCertificatesExpiring means that a certificate expires soon and only its owner can renew it.
	ReasonCertificatesExpiring = "CertificatesExpiring"
)

// Reasons of the condition StoreResolved.
const (
	// ReasonStoreResolved means that provider, container, prefix and credentials are known.
	ReasonStoreResolved = "StoreResolved"
	// ReasonBackupEntryNotFound means that the BackupEntry does not exist.
	ReasonBackupEntryNotFound = "BackupEntryNotFound"
	// ReasonBackupEntryNotReady means that the BackupEntry was not reconciled yet, or failed.
	ReasonBackupEntryNotReady = "BackupEntryNotReady"
	// ReasonStoreSecretMissing means that the Secret with the credentials is missing.
	ReasonStoreSecretMissing = "StoreSecretMissing"
	// ReasonStoreChanged means that the store is another one than the cluster first used, which is refused.
	ReasonStoreChanged = "StoreChanged"
	// ReasonStoreInUse means that another Etcd uses the store, or one whose prefix overlaps.
	ReasonStoreInUse = "StoreInUse"
	// ReasonStoreCopyInProgress means that an EtcdCopyBackupsTask copies snapshots to the store. The members start afterwards.
	ReasonStoreCopyInProgress = "StoreCopyInProgress"
	// ReasonStoreInvalid means that the store cannot be used as it is described.
	ReasonStoreInvalid = "StoreInvalid"
)

// Reasons of the condition FinalSnapshotTaken.
const (
	// ReasonSnapshotVerified means that the snapshot is the newest in the store and holds every acknowledged write.
	ReasonSnapshotVerified = "SnapshotVerified"
	// ReasonSnapshotPending means that the snapshot is being taken.
	ReasonSnapshotPending = "SnapshotPending"
	// ReasonSnapshotFailed means that there is no snapshot: it is tried again, or the cluster hibernates without one.
	ReasonSnapshotFailed = "SnapshotFailed"
	// ReasonSnapshotRolledBack means that no snapshot counts: the cluster has lost acknowledged writes, and no user has accepted that.
	ReasonSnapshotRolledBack = "SnapshotRolledBack"
	// ReasonSnapshotSkipped means that the annotation SkipFinalSnapshotAnnotation continues without a snapshot.
	ReasonSnapshotSkipped = "SnapshotSkipped"
	// ReasonNoDataToSnapshot means that no member was ever healthy, so that there is nothing to be saved.
	ReasonNoDataToSnapshot = "NoDataToSnapshot"
	// ReasonDeletionApproved means that the volumes are being deleted, with the snapshot or for the reason in the message.
	ReasonDeletionApproved = "DeletionApproved"
)

// Reasons of the state of a member in status.members.
const (
	// MemberReasonLeaseSucceeded means that the member renewed its lease in time.
	MemberReasonLeaseSucceeded = "LeaseSucceeded"
	// MemberReasonLeaseExpired means that the member is late with its lease while its containers are ready.
	MemberReasonLeaseExpired = "LeaseExpired"
	// MemberReasonContainersNotReady means that the member is late with its lease and its containers are not ready.
	MemberReasonContainersNotReady = "ContainersNotReady"
	// MemberReasonUnknownGracePeriodExceeded means that the member is too late with its lease.
	MemberReasonUnknownGracePeriodExceeded = "UnknownGracePeriodExceeded"
)
