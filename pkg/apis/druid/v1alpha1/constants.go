// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels of everything that is made for an Etcd.
const (
	// LabelAppNameKey is the key of the label with the name of the object.
	LabelAppNameKey = "app.kubernetes.io/name"
	// LabelManagedByKey is the key of the label with the name of the operator.
	LabelManagedByKey = "app.kubernetes.io/managed-by"
	// LabelManagedByValue is the value of the label LabelManagedByKey.
	LabelManagedByValue = "etcd-druid"
	// LabelPartOfKey is the key of the label with the name of the Etcd, or of the task for Jobs that copy snapshots.
	LabelPartOfKey = "app.kubernetes.io/part-of"
	// LabelComponentKey is the key of the label with the kind of component, one of the constants ComponentName*.
	LabelComponentKey = "app.kubernetes.io/component"
)

// Values of the label LabelComponentKey.
const (
	ComponentNameClientService          = "etcd-client-service"
	ComponentNamePeerService            = "etcd-peer-service"
	ComponentNameConfigMap              = "etcd-configmap"
	ComponentNameMemberLease            = "etcd-member-lease"
	ComponentNameSnapshotLease          = "etcd-snapshot-lease"
	ComponentNamePodDisruptionBudget    = "etcd-pdb"
	ComponentNameNetworkPolicy          = "etcd-network-policy"
	ComponentNameRole                   = "etcd-role"
	ComponentNameRoleBinding            = "etcd-role-binding"
	ComponentNameServiceAccount         = "etcd-service-account"
	ComponentNameStatefulSet            = "etcd-statefulset"
	ComponentNameSnapshotCompactionJob  = "etcd-snapshot-compaction-job"
	ComponentNameCopyBackupsJob         = "etcd-copy-backups-job"
	ComponentNameRestoreVerificationJob = "etcd-restore-verification-job"
	ComponentNameInspectionJob          = "etcd-inspection-job"
	ComponentNameRestoreDrillJob        = "etcd-restore-drill-job"
	ComponentNameRecoveryJob            = "etcd-recovery-job"
	ComponentNameBackupInspectionJob    = "etcd-backup-inspection-job"
	ComponentNameConnection             = "etcd-connection"
	// ComponentNameCABundle is of Secrets with the CAs that members trust during a change to another CA.
	ComponentNameCABundle = "etcd-ca-bundle"
	// ComponentNameOpsTask is of EtcdOpsTasks that the operator itself makes.
	ComponentNameOpsTask = "etcd-ops-task"
)

// Annotations of an Etcd, read by the operator.
const (
	// DruidOperationAnnotation requests an operation, see DruidOperationReconcile. The operator removes it when it has
	// accepted the operation.
	DruidOperationAnnotation = "druid.gardener.cloud/operation"
	// GardenerOperationAnnotation is the older key of DruidOperationAnnotation.
	//
	// Deprecated: use DruidOperationAnnotation.
	GardenerOperationAnnotation = "gardener.cloud/operation"
	// DruidOperationReconcile is the value of the operation annotation that requests the reconciliation of the spec.
	DruidOperationReconcile = "reconcile"
	// SuspendEtcdSpecReconcileAnnotation, whatever its value, makes the operator leave the spec alone. The status is still
	// kept, and deletion still proceeds.
	SuspendEtcdSpecReconcileAnnotation = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
	// DisableEtcdComponentProtectionAnnotation, whatever its value, disables the protection of the objects of the Etcd.
	DisableEtcdComponentProtectionAnnotation = "druid.gardener.cloud/disable-etcd-component-protection"
	// DisableEtcdRuntimeComponentCreationAnnotation, whatever its value, makes the operator render the ConfigMap and a
	// StatefulSet without replicas, and nothing else.
	//
	// Deprecated: use spec.externallyManagedMemberAddresses. Honoured on objects that carry it.
	DisableEtcdRuntimeComponentCreationAnnotation = "druid.gardener.cloud/disable-etcd-runtime-component-creation"
	// AllowUnhealthyPodEvictionAnnotation, whatever its value, lets pods that are not ready be evicted at any time.
	AllowUnhealthyPodEvictionAnnotation = "resources.druid.gardener.cloud/allow-unhealthy-pod-eviction"
	// RunTaskAnnotation requests one of the tasks RunTask*, once.
	RunTaskAnnotation = "druid.gardener.cloud/run-task"
	// RunTaskFullSnapshot takes a full snapshot.
	RunTaskFullSnapshot = "full-snapshot"
	// RunTaskDeltaSnapshot takes a delta snapshot.
	RunTaskDeltaSnapshot = "delta-snapshot"
	// RunTaskCompaction compacts the snapshots.
	RunTaskCompaction = "compaction"
	// RunTaskDefragmentation defragments the database of every member.
	RunTaskDefragmentation = "defragmentation"
	// TaskNotAfterAnnotation on an EtcdOpsTask is the time, in RFC 3339, after which the operator does not start it any more. Missing: no limit.
	TaskNotAfterAnnotation = "etcd-druid.extensions.gardener.cloud/not-after"
	// RunTaskRestoreDrill proves that the snapshots in the store can be restored. Nothing of the cluster changes.
	RunTaskRestoreDrill = "restore-drill"
	// RestoreDrillPeriodAnnotation is the time between two restore drills of an Etcd, for example 24h. 0s: none is scheduled. Without it, the
	// configuration of the operator applies.
	RestoreDrillPeriodAnnotation = "druid.gardener.cloud/restore-drill-period"
	// TaskBackupInspection is the kind of a task that makes data of the backup store readable. RunTaskAnnotation cannot
	// request it.
	TaskBackupInspection = "backup-inspection"
	// TaskBackupInspectionAnnotation is the key of the BackupInspectionConfig, in JSON, on an EtcdOpsTask of the kind
	// TaskBackupInspection. It takes precedence over spec.config, which the CustomResourceDefinitions of etcd-druid prune.
	TaskBackupInspectionAnnotation = "etcd-druid.extensions.gardener.cloud/backup-inspection"
	// TaskKindAnnotation is the key of the task kind, one of RunTask*, on an EtcdOpsTask that the operator created
	// because of RunTaskAnnotation. It takes precedence over spec.config: the CustomResourceDefinitions of etcd-druid
	// prune unknown kinds.
	TaskKindAnnotation = "etcd-druid.extensions.gardener.cloud/task-kind"
	// TaskRevisionAnnotation is the key, on an EtcdOpsTask that takes a snapshot, of the revision of etcd before the first
	// attempt.
	TaskRevisionAnnotation = "etcd-druid.extensions.gardener.cloud/revision"
	// AcceptRevisionAnnotation accepts the loss of writes. Without RestoreAnnotation, its value is the revision to which the
	// cluster was rolled back. The condition RevisionConfirmed names it. With RestoreAnnotation, its value is the lowest
	// revision that the backup store must restore. The operator removes the annotation.
	AcceptRevisionAnnotation = "druid.gardener.cloud/accept-revision"
	// SkipFinalSnapshotAnnotation, whatever its value, lets a cluster hibernate, and volumes be discarded, without a snapshot
	// taken just before.
	SkipFinalSnapshotAnnotation = "druid.gardener.cloud/skip-final-snapshot"
	// RunTaskIDAnnotation is set next to RunTaskAnnotation before the operator creates the task. It is a part of the
	// name of the task, so that the operator does not create a second one.
	RunTaskIDAnnotation = "etcd-druid.extensions.gardener.cloud/run-task-id"
	// RestoreAnnotation requests that the cluster is restored from its backup store: RestoreFromStore. It is ignored
	// while a member is healthy.
	RestoreAnnotation = "druid.gardener.cloud/restore"
	// RestoreFromStore is a value of RestoreAnnotation. The operator deletes the claims of all members after a Job has
	// restored the latest snapshots on another volume. The result must have the highest revision of which the operator
	// knows, or the one of AcceptRevisionAnnotation.
	RestoreFromStore = "from-store"
	// RestoreFromStoreUnverified is the other value: the operator does not verify the restore first.
	RestoreFromStoreUnverified = "from-store-unverified"
	// PeerTLSAnnotation with PeerTLSOff disables TLS between members if the spec does not name their Secrets of
	// spec.etcd.peerUrlTls any more. Without it a spec without these Secrets is rejected, because they may be missing
	// by mistake. It is ignored if spec.etcd.enableTLS is set.
	PeerTLSAnnotation = "druid.gardener.cloud/peer-tls"
	// PeerTLSOff is the only value of PeerTLSAnnotation.
	PeerTLSOff = "off"
	// UpdateStrategyAnnotation is the update strategy of an Etcd whose spec has none: Surge or Restart. It also works where a CustomResourceDefinition
	// prunes spec.etcd.updateStrategy.
	UpdateStrategyAnnotation = "druid.gardener.cloud/update-strategy"
	// DefragmentationStallBudgetAnnotation limits for how long a planned defragmentation may interrupt a member, as a duration such as 10s. 0s: no
	// limit. Missing: the setting of the operator.
	DefragmentationStallBudgetAnnotation = "druid.gardener.cloud/defragmentation-stall-budget"
	// RecoveryPolicyAnnotation is the recovery policy of an Etcd whose spec has none: Never, Ask, AutoIfNoLoss or Auto. It also works where a
	// CustomResourceDefinition prunes spec.recoveryPolicy.
	RecoveryPolicyAnnotation = "druid.gardener.cloud/recovery-policy"
	// RecoverAnnotation chooses the data from which a cluster is recovered whose quorum is lost forever. Its value is a token of the condition
	// QuorumRecoverable.
	RecoverAnnotation = "druid.gardener.cloud/recover"
	// RotateCAAnnotation requests a step of the rotation of the CAs: RotateCAStart or RotateCAComplete.
	RotateCAAnnotation = "druid.gardener.cloud/rotate-ca"
	// RotateCAStart adds a new CA to the trust bundle.
	RotateCAStart = "start"
	// RotateCAComplete ends the trust in the old CA.
	RotateCAComplete = "complete"
)

// Labels and annotations of a PersistentVolume that the operator retains after a restore has deleted its claim. The operator
// removes them when it sets the original reclaim policy again.
const (
	// VolumeLabelNamespace, VolumeLabelName and VolumeLabelUID are the keys of the labels with the Etcd.
	VolumeLabelNamespace = "etcd-druid.extensions.gardener.cloud/retained-for-namespace"
	VolumeLabelName      = "etcd-druid.extensions.gardener.cloud/retained-for-name"
	VolumeLabelUID       = "etcd-druid.extensions.gardener.cloud/retained-for-uid"
	// VolumeAnnotationClaim is the key of the annotation with the name of the deleted PersistentVolumeClaim.
	VolumeAnnotationClaim = "etcd-druid.extensions.gardener.cloud/retained-claim"
	// VolumeAnnotationReclaimPolicy is the key of the annotation with the original reclaim policy.
	VolumeAnnotationReclaimPolicy = "etcd-druid.extensions.gardener.cloud/retained-reclaim-policy"
	// VolumeAnnotationRetainedAt is the key of the annotation with the time at which the operator decided to retain it.
	VolumeAnnotationRetainedAt = "etcd-druid.extensions.gardener.cloud/retained-at"
)

// Annotations of other objects.
const (
	// MemberTLSEnabledAnnotation is written by the sidecar on the lease of its member: `true` when all its peer URLs are
	// https, else `false`.
	MemberTLSEnabledAnnotation = "member.etcd.gardener.cloud/tls-enabled"

	// ManagedResourceAnnotationState is the key, on the ManagedResource of an Etcd, of the durable record of the operator (JSON, see pkg/state).
	ManagedResourceAnnotationState = "etcd-druid.extensions.gardener.cloud/state"
	// ManagedResourceAnnotationStore is the key, on the ManagedResource of an Etcd, of the store that was first used.
	ManagedResourceAnnotationStore = "etcd-druid.extensions.gardener.cloud/store"
	// PodAnnotationCertificates is the key, on a pod and in the pod template, of the checksum of the certificates of the user. It is set after
	// the first renewal in place. A changed checksum restarts the members.
	PodAnnotationCertificates = "etcd-druid.extensions.gardener.cloud/certificates"
	// PodLabelAcceptsClients is the key of a label of pods. While members are removed, the client Service selects only pods whose value is the
	// number of members that stay.
	PodLabelAcceptsClients = "etcd-druid.extensions.gardener.cloud/accepts-clients"
	// PodNameExcluded is the value of the label app.kubernetes.io/name of a pod that the client Service does not select. Its member has other
	// data than a quorum, or a volume migration removes it. All other pods have the name of their Etcd as the value.
	PodNameExcluded = "excluded-from-clients"
	// PodAnnotationRefreshed is the key, on a pod, of the rendering whose configuration the kubelet has to project without delay.
	PodAnnotationRefreshed = "etcd-druid.extensions.gardener.cloud/refreshed"
	// PodAnnotationEvictionRequested is the key, on the pod of an only member, of the time (RFC 3339) at which its eviction was requested. The webhook
	// has rejected the eviction, so that a surge can replace the member.
	PodAnnotationEvictionRequested = "etcd-druid.extensions.gardener.cloud/eviction-requested"
	// LeaseAnnotationStore is the key, on a Lease of snapshots, of the store that contains them, as text.
	LeaseAnnotationStore = "etcd-druid.extensions.gardener.cloud/store"
	// LeaseAnnotationAwaitsReset is a key on the Lease of full snapshots. With the value `true`, the Lease may record a snapshot from a time at
	// which etcd rejected writes. Such a snapshot does not count. The care controller then recreates the Lease.
	LeaseAnnotationAwaitsReset = "etcd-druid.extensions.gardener.cloud/awaits-reset"
	// RecoveryTokenAnnotation is the key, on the Job that stores the data from which a cluster is recovered, of the token of the option.
	RecoveryTokenAnnotation = "etcd-druid.extensions.gardener.cloud/recovery-token" // #nosec G101 -- the token of an option is no credential
	// InspectionClaimUIDAnnotation is the key, on a Job that inspects the volume of a member, of the UID of its PersistentVolumeClaim.
	InspectionClaimUIDAnnotation = "etcd-druid.extensions.gardener.cloud/claim-uid"
	// ManagedResourceAnnotationRestoreDrill is the key, on the ManagedResource of an Etcd, of the record of its restore drills (JSON, see
	// state.RestoreDrill).
	ManagedResourceAnnotationRestoreDrill = "etcd-druid.extensions.gardener.cloud/restore-drill"
	// ManagedResourceAnnotationRepairs is an annotation on the ManagedResource of an Etcd. Its value, in JSON, contains the times of
	// the last repairs of objects that other writers had deleted or changed.
	ManagedResourceAnnotationRepairs = "etcd-druid.extensions.gardener.cloud/repairs"
)

// ManagedResourceOrigin is the value of the origin label of the ManagedResources of the operator and of their payloads. It is never "gardener":
// gardenlet deletes those in bulk.
const ManagedResourceOrigin = "gardener-extension-etcd-druid"

// Annotations of Jobs that compact snapshots, and of EtcdOpsTasks that take a full snapshot instead.
const (
	// CompactionAttemptAnnotation is the number of the attempt, from 1.
	CompactionAttemptAnnotation = "etcd-druid.extensions.gardener.cloud/attempt"
	// CompactionTaskAnnotation is the UID of the EtcdOpsTask that requested the Job. Missing: no task did.
	CompactionTaskAnnotation = "etcd-druid.extensions.gardener.cloud/task"
	// CompactionDisruptionAnnotation is why the pod of the Job was ended from outside. The pod is gone when the Job has
	// failed.
	CompactionDisruptionAnnotation = "etcd-druid.extensions.gardener.cloud/disruption"
	// CompactionRecordedAnnotation is the outcome as the condition and the metrics show it. Missing: they do not yet.
	CompactionRecordedAnnotation = "etcd-druid.extensions.gardener.cloud/recorded"
	// CompactionBaseAnnotation is the revision of the full snapshot that there was before. Missing on a Job: there was none.
	CompactionBaseAnnotation = "etcd-druid.extensions.gardener.cloud/base-revision"
)

// Annotations of the Job of a restore drill, and of EtcdOpsTasks that the operator creates for drills.
const (
	// DrillRevisionAnnotation is the revision, on the Job, at which the members returned the hash. DrillHashAnnotation is that hash.
	DrillRevisionAnnotation = "etcd-druid.extensions.gardener.cloud/live-revision"
	DrillHashAnnotation     = "etcd-druid.extensions.gardener.cloud/live-hash"
	// DrillSnapshotAnnotation is the newest snapshot, on the Job, when the members returned the hash.
	DrillSnapshotAnnotation = "etcd-druid.extensions.gardener.cloud/snapshot"
	// DrillDataAgeAnnotation is, on the Job and its task, the age of the newest snapshot before the drill took its own.
	// DrillMissingRevisionsAnnotation is the number of revisions that the store lacked then.
	DrillDataAgeAnnotation          = "etcd-druid.extensions.gardener.cloud/data-age"
	DrillMissingRevisionsAnnotation = "etcd-druid.extensions.gardener.cloud/missing-revisions"
	// DrillBeforeAnnotation is, on the EtcdOpsTask of a drill, the revision of the newest snapshot before the first attempt, and when it was taken
	// (RFC 3339).
	DrillBeforeAnnotation = "etcd-druid.extensions.gardener.cloud/snapshot-before"
	// DrillScheduledAnnotation is true on the EtcdOpsTasks of scheduled drills. The limit of concurrent drills applies to them.
	DrillScheduledAnnotation = "etcd-druid.extensions.gardener.cloud/scheduled"
	// DrillOfAnnotation is the UID of the failed drill, on the EtcdOpsTasks with the full snapshot and the drill that follow it.
	DrillOfAnnotation = "etcd-druid.extensions.gardener.cloud/failed-drill"
)

// Finalizers.
const (
	// EtcdFinalizerName is the finalizer of an Etcd, of an EtcdCopyBackupsTask, and of the Secrets that they use. etcd-druid adds it to
	// Secrets too.
	EtcdFinalizerName = "druid.gardener.cloud/etcd-druid"
	// OlderEtcdFinalizerName is a finalizer that older manifests carry. It is released on deletion and never added.
	OlderEtcdFinalizerName = "druid.gardener.cloud/etcd"
	// EtcdOpsTaskFinalizerName is the finalizer of an EtcdOpsTask.
	EtcdOpsTaskFinalizerName = "druid.gardener.cloud/etcd-ops-task"
	// ReleasePodsFinalizerName is the finalizer of a StatefulSet that is deleted without its pods. It keeps the StatefulSet until the operator has
	// removed the owner references of all its pods.
	ReleasePodsFinalizerName = "druid.gardener.cloud/release-pods"
)
