// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Codes of the errors of an Etcd.
const (
	ErrorCodeGetStatefulSet  ErrorCode = "ERR_GET_STATEFULSET"
	ErrorCodeSyncStatefulSet ErrorCode = "ERR_SYNC_STATEFULSET"
	// ErrorCodeDeleteStatefulSet and the codes below follow one pattern: ERR_, the verb, the component.
	ErrorCodeDeleteStatefulSet ErrorCode = "ERR_DELETE_STATEFULSET"

	ErrorCodeGetConfigMap    ErrorCode = "ERR_GET_CONFIGMAP"
	ErrorCodeSyncConfigMap   ErrorCode = "ERR_SYNC_CONFIGMAP"
	ErrorCodeDeleteConfigMap ErrorCode = "ERR_DELETE_CONFIGMAP"

	ErrorCodeGetClientService    ErrorCode = "ERR_GET_CLIENT_SERVICE"
	ErrorCodeSyncClientService   ErrorCode = "ERR_SYNC_CLIENT_SERVICE"
	ErrorCodeDeleteClientService ErrorCode = "ERR_DELETE_CLIENT_SERVICE"

	ErrorCodeGetPeerService    ErrorCode = "ERR_GET_PEER_SERVICE"
	ErrorCodeSyncPeerService   ErrorCode = "ERR_SYNC_PEER_SERVICE"
	ErrorCodeDeletePeerService ErrorCode = "ERR_DELETE_PEER_SERVICE"

	ErrorCodeGetSnapshotLease    ErrorCode = "ERR_GET_SNAPSHOT_LEASE"
	ErrorCodeSyncSnapshotLease   ErrorCode = "ERR_SYNC_SNAPSHOT_LEASE"
	ErrorCodeDeleteSnapshotLease ErrorCode = "ERR_DELETE_SNAPSHOT_LEASE"

	ErrorCodeGetPodDisruptionBudget    ErrorCode = "ERR_GET_POD_DISRUPTION_BUDGET"
	ErrorCodeSyncPodDisruptionBudget   ErrorCode = "ERR_SYNC_POD_DISRUPTION_BUDGET"
	ErrorCodeDeletePodDisruptionBudget ErrorCode = "ERR_DELETE_POD_DISRUPTION_BUDGET"

	ErrorCodeGetServiceAccount    ErrorCode = "ERR_GET_SERVICE_ACCOUNT"
	ErrorCodeSyncServiceAccount   ErrorCode = "ERR_SYNC_SERVICE_ACCOUNT"
	ErrorCodeDeleteServiceAccount ErrorCode = "ERR_DELETE_SERVICE_ACCOUNT"

	ErrorCodeGetRole    ErrorCode = "ERR_GET_ROLE"
	ErrorCodeSyncRole   ErrorCode = "ERR_SYNC_ROLE"
	ErrorCodeDeleteRole ErrorCode = "ERR_DELETE_ROLE"

	ErrorCodeGetRoleBinding    ErrorCode = "ERR_GET_ROLE_BINDING"
	ErrorCodeSyncRoleBinding   ErrorCode = "ERR_SYNC_ROLE_BINDING"
	ErrorCodeDeleteRoleBinding ErrorCode = "ERR_DELETE_ROLE_BINDING"

	ErrorCodeListMemberLease   ErrorCode = "ERR_LIST_MEMBER_LEASE"
	ErrorCodeSyncMemberLease   ErrorCode = "ERR_SYNC_MEMBER_LEASE"
	ErrorCodeDeleteMemberLease ErrorCode = "ERR_DELETE_MEMBER_LEASE"

	ErrorCodeGetEtcdOpsTask      ErrorCode = "ERR_GET_ETCDOPSTASK"
	ErrorCodeCreateEtcdOpsTask   ErrorCode = "ERR_CREATE_ETCDOPSTASK"
	ErrorCodeGetEtcdWrapperImage ErrorCode = "ERR_GET_ETCD_WRAPPER_IMAGE"

	// ErrorCodeInvalidSpec is a spec that is not valid; the description names the field and the remedy.
	ErrorCodeInvalidSpec ErrorCode = "ERR_INVALID_SPEC"
	// ErrorCodeSyncManagedResource is a ManagedResource that could not be written or that was not applied.
	ErrorCodeSyncManagedResource ErrorCode = "ERR_SYNC_MANAGED_RESOURCE"
	// ErrorCodeDeleteManagedResource is a ManagedResource that could not be deleted.
	ErrorCodeDeleteManagedResource ErrorCode = "ERR_DELETE_MANAGED_RESOURCE"
	// ErrorCodeDeletePersistentVolumeClaim is a volume claim that could not be deleted.
	ErrorCodeDeletePersistentVolumeClaim ErrorCode = "ERR_DELETE_PERSISTENT_VOLUME_CLAIM"
	// ErrorCodeSyncNetworkPolicy is a NetworkPolicy that the API server could not check.
	ErrorCodeSyncNetworkPolicy ErrorCode = "ERR_SYNC_NETWORK_POLICY"
	// ErrorCodeDeleteNetworkPolicy is a NetworkPolicy that could not be deleted.
	ErrorCodeDeleteNetworkPolicy ErrorCode = "ERR_DELETE_NETWORK_POLICY"
	// ErrorCodeObserve is a cluster whose state could not be read.
	ErrorCodeObserve ErrorCode = "ERR_OBSERVE"
	// ErrorCodeResolveStore is a store whose provider, container or credentials could not be found out.
	ErrorCodeResolveStore ErrorCode = "ERR_RESOLVE_STORE"
	// ErrorCodeSyncSecrets is a certificate that could not be issued, or a Secret for it that could not be written.
	ErrorCodeSyncSecrets ErrorCode = "ERR_SYNC_SECRETS" // #nosec G101 -- an error code
	// ErrorCodeDeleteSecrets is a Secret of the operator that could not be deleted.
	ErrorCodeDeleteSecrets ErrorCode = "ERR_DELETE_SECRETS" // #nosec G101 -- an error code
	// ErrorCodeStep is a step of the plan that failed, such as the eviction of a pod.
	ErrorCodeStep ErrorCode = "ERR_STEP"
	// ErrorCodeQuorumUnsafeMemberRemoval is the removal of a member that etcd refuses, because the other members would have no quorum.
	ErrorCodeQuorumUnsafeMemberRemoval ErrorCode = "ERR_QUORUM_UNSAFE_MEMBER_REMOVAL"
	// ErrorCodeReconcileLoop is an Etcd whose reconciliations wrote or conflicted more than 30 times within a minute without a new
	// observation; the operator backs off.
	ErrorCodeReconcileLoop ErrorCode = "ERR_RECONCILE_LOOP"
)

// Codes of the errors of an EtcdOpsTask, in addition to those above.
const (
	ErrorCodeInsufficientPermissions ErrorCode = "ERR_INSUFFICIENT_PERMISSIONS"
	ErrorCodeGetEtcd                 ErrorCode = "ERR_GET_ETCD"
	ErrorCodeDuplicateTask           ErrorCode = "ERR_DUPLICATE_TASK"
	ErrorCodeGetCASecret             ErrorCode = "ERR_GET_CA_SECRET" // #nosec G101 -- an error code
	ErrorCodeCADataKeyNotFound       ErrorCode = "ERR_CA_DATA_KEY_NOT_FOUND"
	ErrorCodeAppendCACerts           ErrorCode = "ERR_APPEND_CA_CERTS"
	ErrorCodeDeleteEtcdOpsTask       ErrorCode = "ERR_DELETE_ETCD_OPS_TASK"
	ErrorCodeEtcdNotReady            ErrorCode = "ERR_ETCD_NOT_READY"
	ErrorCodeBackupNotEnabled        ErrorCode = "ERR_BACKUP_NOT_ENABLED"
	ErrorCodeCreateHTTPRequest       ErrorCode = "ERR_CREATE_HTTP_REQUEST"
	ErrorCodeExecuteHTTPRequest      ErrorCode = "ERR_EXECUTE_HTTP_REQUEST"
	ErrorCodeCreateSnapshot          ErrorCode = "ERR_CREATE_SNAPSHOT"
	ErrorCodeOperationCancelled      ErrorCode = "ERR_OPERATION_CANCELLED"
	// ErrorCodeCompactSnapshots is a Job that failed to compact the snapshots.
	ErrorCodeCompactSnapshots ErrorCode = "ERR_COMPACT_SNAPSHOTS"
	// ErrorCodeRestoreDrill is a restore drill that has found a fault, or that could not be completed.
	ErrorCodeRestoreDrill ErrorCode = "ERR_RESTORE_DRILL"
	// ErrorCodeMembersDiffer is a restore drill that has found that the members have different data at the same revision.
	ErrorCodeMembersDiffer ErrorCode = "ERR_MEMBERS_DIFFER"
	// ErrorCodeBackupInspection is an inspection of the backup store that could not make the data readable.
	ErrorCodeBackupInspection ErrorCode = "ERR_BACKUP_INSPECTION"
	// ErrorCodeDefragment is a member that could not be defragmented, or members that did not serve afterwards.
	ErrorCodeDefragment ErrorCode = "ERR_DEFRAGMENT"
)
