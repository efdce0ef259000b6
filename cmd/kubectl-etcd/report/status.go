// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Facts are the input of StatusFor.
type Facts struct {
	// Etcd as it is stored.
	Etcd *druidv1alpha1.Etcd
	// Canonical is its current form.
	Canonical *druidv1alpha1.Etcd
	// Observation of its cluster, with the permissions of the user.
	Observation etcdcluster.Observation
	// Now is the time of the observation.
	Now time.Time
}

// Status is the state of one Etcd.
type Status struct {
	// Time of the observation.
	Time time.Time `json:"time"`
	// Namespace and Name of the Etcd.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Healthy is true if State is Ready or Hibernated.
	Healthy bool `json:"healthy"`
	// State is Ready, Degraded, NotReady, Hibernated, Deleting or Unknown.
	State string `json:"state"`
	// Desired is spec.replicas, Serving is the number of healthy voting members, Quorum is the number that a quorum
	// needs.
	Desired int `json:"desired"`
	Serving int `json:"serving"`
	Quorum  int `json:"quorum"`
	// Message is that of the operator about its current action.
	Message string `json:"status"`
	// Operation is the change of members that is in progress. Nil: there is none.
	Operation *Operation `json:"operation,omitempty"`
	// Generation is that of the Etcd. Observed is the newest generation that the operator reconciled. 0: none.
	Generation int64 `json:"generation"`
	Observed   int64 `json:"observedGeneration"`
	// Suspended is true while the operator does not reconcile the spec. Unprotected is true while the protection of the
	// objects is disabled.
	Suspended   bool `json:"suspended,omitempty"`
	Unprotected bool `json:"unprotected,omitempty"`
	// Members in the order of their ordinals.
	Members []Member `json:"members"`
	// Alarms that members or the operator raised.
	Alarms []string `json:"alarms,omitempty"`
	// QuotaBytes is the limit of each member's database.
	QuotaBytes int64 `json:"quotaBytes"`
	// Backups. Nil: no store is configured.
	Backups *Backups `json:"backups,omitempty"`
	// Certificates that are in use, the first to expire first.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Conditions as the operator reports them.
	Conditions []Condition `json:"conditions"`
	// LastErrors of the operator.
	LastErrors []string `json:"lastErrors,omitempty"`
	// Unavailable lists the parts that could not be read, with the reasons.
	Unavailable []string `json:"unavailable,omitempty"`
}

// Member is a member of the cluster.
type Member struct {
	// Name of the member.
	Name string `json:"name"`
	// ID in etcd, in hexadecimal. Empty: not known.
	ID string `json:"id,omitempty"`
	// Role is Leader, Voter or Learner. Empty: not known.
	Role string `json:"role,omitempty"`
	// State is Healthy, or the reason why the member is not healthy.
	State string `json:"state"`
	// Version of etcd. Empty: no status was requested, or the member does not respond.
	Version string `json:"version,omitempty"`
	// Wrapper and Sidecar are the versions of etcd-wrapper and etcd-backup-restore in its pod. Empty: there is no pod, or it is not known.
	Wrapper string `json:"wrapper,omitempty"`
	Sidecar string `json:"sidecar,omitempty"`
	// Revision of its store, and the sizes in bytes of its database, and of the part of it that holds data. 0: not known.
	Revision int64 `json:"revision,omitempty"`
	DBSize   int64 `json:"dbSizeBytes,omitempty"`
	InUse    int64 `json:"dbSizeInUseBytes,omitempty"`
	// Node that its pod runs on, Restarts of its containers, Started when the pod was created. Zero: there is no pod.
	Node     string    `json:"node,omitempty"`
	Restarts int32     `json:"restarts"`
	Started  time.Time `json:"started,omitzero"`
	// Outdated is true if the pod was created from an older revision of the StatefulSet.
	Outdated bool `json:"outdated,omitempty"`
	// Warning describes a problem of the pod. Empty: none.
	Warning string `json:"warning,omitempty"`
}

// Backups are the newest snapshots.
type Backups struct {
	// Provider, Container and Prefix of the store. Empty: not stated in the spec.
	Provider  string `json:"provider,omitempty"`
	Container string `json:"container,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	// Full and Delta are the newest of each kind.
	Full  Snapshot `json:"full"`
	Delta Snapshot `json:"delta"`
	// State is the condition about them: True, False or Unknown, with its message.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// Snapshot is the newest of its kind.
type Snapshot struct {
	// Time of it. Zero: there is none.
	Time time.Time `json:"time,omitzero"`
	// Revision that it reaches to. Empty: not known.
	Revision string `json:"revision,omitempty"`
}

// Certificate is a certificate in use.
type Certificate struct {
	// Secret and Key say where it is.
	Secret string `json:"secret"`
	Key    string `json:"key"`
	// NotAfter is when it expires.
	NotAfter time.Time `json:"notAfter"`
}

// Condition is a condition of the Etcd.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	// Warning is true if the condition requires attention.
	Warning bool `json:"warning,omitempty"`
}

// StatusFor computes the screen of an Etcd.
func StatusFor(facts Facts) Status {
	etcd, o, quota := facts.Etcd, facts.Observation, helper.Quota(facts.Canonical)
	status := Status{
		Time: facts.Now, Namespace: etcd.Namespace, Name: etcd.Name,
		Desired: int(facts.Canonical.Spec.Replicas), Quorum: etcdcluster.QuorumOf(int(facts.Canonical.Spec.Replicas)),
		Generation: etcd.Generation, Observed: ptr.Deref(etcd.Status.ObservedGeneration, 0),
		Suspended:   helper.IsSuspended(facts.Canonical),
		Unprotected: hasAnnotation(etcd, druidv1alpha1.DisableEtcdComponentProtectionAnnotation),
		QuotaBytes:  quota.Value(),
		Members:     membersOf(facts),
		Operation:   operationOf(facts.Canonical, o),
		Backups:     backupsOf(facts),
		Unavailable: unavailableOf(o),
	}
	for _, member := range etcdcluster.MembersFor(facts.Canonical, o) {
		if member.IsHealthy() {
			status.Serving++
		}
	}
	for _, alarm := range o.Etcd.Alarms {
		actor := "member " + etcdcluster.FormatID(alarm.MemberID)
		switch {
		case alarm.MemberID == 0:
			actor = "etcd, which names no member"
		case slices.Contains(etcdcluster.WriteRejections, alarm):
			actor = "the operator, which makes etcd reject writes before a deletion of the volumes"
		}
		status.Alarms = append(status.Alarms, fmt.Sprintf("%s raised by %s", alarm.Type, actor))
	}
	for _, certificate := range etcdcluster.CertificatesInUse(facts.Canonical, o) {
		status.Certificates = append(status.Certificates, Certificate{Secret: certificate.SecretName, Key: certificate.Key, NotAfter: certificate.NotAfter})
	}
	slices.SortStableFunc(status.Certificates, func(a, b Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	for _, condition := range etcd.Status.Conditions {
		status.Conditions = append(status.Conditions, Condition{
			Type: string(condition.Type), Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
			Since: condition.LastTransitionTime.Time, Warning: isWarning(condition),
		})
	}
	for _, lastError := range etcd.Status.LastErrors {
		status.LastErrors = append(status.LastErrors, lastError.Description)
	}
	status.Message = messageOf(etcd)
	status.State = stateOf(facts, status)
	status.Healthy = status.State == "Ready" || status.State == "Hibernated"

	return status
}

func hasAnnotation(etcd *druidv1alpha1.Etcd, key string) bool {
	_, found := etcd.Annotations[key]

	return found
}

// isWarning is true for a condition that requires attention. ClusterIDMismatch is False in a healthy cluster, and Reconciled while the operator
// changes it. Unknown is not a warning.
func isWarning(condition druidv1alpha1.Condition) bool {
	switch condition.Type {
	case druidv1alpha1.ConditionTypeClusterIDMismatch:
		return condition.Status == druidv1alpha1.ConditionTrue
	case druidv1alpha1.ConditionTypeReconciled:
		return false
	default:
		return condition.Status == druidv1alpha1.ConditionFalse
	}
}

// stateOf summarizes the state. The current number of healthy members takes precedence over condition Ready, which is
// as old as the last observation of the operator.
func stateOf(facts Facts, status Status) string {
	counted := isCounted(facts)
	ready := conditions.Find(facts.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeReady)
	switch {
	case facts.Etcd.DeletionTimestamp != nil:
		return "Deleting"
	case helper.IsHibernated(facts.Canonical) && len(facts.Observation.Pods) == 0:
		return "Hibernated"
	case counted && status.Serving < status.Quorum:
		return "NotReady"
	case ready == nil || ready.Status == druidv1alpha1.ConditionUnknown:
		return "Unknown"
	case ready.Status != druidv1alpha1.ConditionTrue:
		return "NotReady"
	case counted && status.Serving < status.Desired:
		return "Degraded"
	}
	for _, condition := range status.Conditions {
		if condition.Warning {
			return "Degraded"
		}
	}
	if len(status.Alarms) > 0 || len(status.LastErrors) > 0 {
		return "Degraded"
	}

	return "Ready"
}

// isCounted is true if the number of healthy members is known. Externally managed members, and members whose pods may
// not be read, are known only by their responses.
func isCounted(facts Facts) bool {
	isPods := func(failure etcdcluster.ReadFailure) bool { return failure.Section == etcdcluster.SectionPods }

	return facts.Observation.Etcd.AnyReachable() ||
		helper.ManagesPods(facts.Canonical) && !slices.ContainsFunc(facts.Observation.Failures, isPods)
}

// messageOf is the message of the operator about its current action.
func messageOf(etcd *druidv1alpha1.Etcd) string {
	if etcd.DeletionTimestamp != nil && etcd.Status.LastOperation != nil {
		return etcd.Status.LastOperation.Description
	}
	reconciled := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeReconciled)
	if reconciled == nil {
		return "the operator has not reported anything yet: check that it runs"
	}

	return reconciled.Message
}

// unavailableOf lists the parts that could not be read. Each entry has the first reason, and the number of further reasons.
func unavailableOf(o etcdcluster.Observation) []string {
	var parts []string
	first, more := map[string]string{}, map[string]int{}
	note := func(part, message string) {
		if _, found := first[part]; found {
			more[part]++

			return
		}
		parts = append(parts, part)
		first[part] = message
	}
	for _, failure := range o.Failures {
		note(string(failure.Section), failure.Message)
	}
	for _, endpoint := range o.Etcd.Members {
		if !endpoint.Reachable && strings.Contains(endpoint.Error, "reading Secret") {
			note("versions, sizes and revisions", endpoint.Error)
		}
	}
	var unavailable []string
	for _, part := range parts {
		// The reader knows the user that lacks the permission.
		message, _, _ := strings.Cut(first[part], ": User ")
		if more[part] > 0 {
			message += fmt.Sprintf(", and %d more", more[part])
		}
		unavailable = append(unavailable, part+": "+message)
	}

	return unavailable
}

func backupsOf(facts Facts) *Backups {
	store := facts.Canonical.Spec.Backup.Store
	if store == nil {
		return nil
	}
	o := facts.Observation
	backups := &Backups{
		Prefix: store.Prefix, Container: ptr.Deref(store.Container, ""), Provider: string(ptr.Deref(store.Provider, "")),
		Full:  Snapshot{Time: o.FullSnapshotLease.RenewTime, Revision: o.FullSnapshotLease.Holder},
		Delta: Snapshot{Time: o.DeltaSnapshotLease.RenewTime, Revision: o.DeltaSnapshotLease.Holder},
		State: string(druidv1alpha1.ConditionUnknown),
	}
	if condition := conditions.Find(facts.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeBackupReady); condition != nil {
		backups.State, backups.Message = string(condition.Status), condition.Message
	}

	return backups
}

func membersOf(facts Facts) []Member {
	var members []Member
	count := facts.Canonical.Spec.Replicas
	if operationOf(facts.Canonical, facts.Observation) != nil {
		count = max(count, facts.Observation.State.Size)
	}
	for _, observed := range etcdcluster.MembersOf(facts.Canonical, facts.Observation, count) {
		member := Member{Name: observed.Name, Role: roleOf(observed), State: memberStateOf(facts, observed)}
		if id := observed.ID(); id != 0 {
			member.ID = etcdcluster.FormatID(id)
		}
		if endpoint := observed.Endpoint; endpoint != nil && endpoint.Reachable {
			member.Version, member.Revision, member.DBSize, member.InUse = endpoint.Version, endpoint.Revision, endpoint.DBSize, endpoint.DBSizeInUse
		}
		versions := observed.Versions()
		member.Wrapper, member.Sidecar = versions.Wrapper, versions.Sidecar
		member.Warning = facts.Observation.StartProblem(observed.Ordinal)
		if pod := observed.Pod; pod != nil {
			member.Node, member.Started = pod.Node, pod.CreationTime
			member.Outdated = pod.IsOutdated(facts.Observation.StatefulSet)
			for _, container := range pod.Containers {
				member.Restarts += container.Restarts
			}
		}
		members = append(members, member)
	}

	return withOneLeader(members)
}

// withOneLeader removes the role Leader of unhealthy members if a healthy member is the leader. The role of an
// unhealthy member is from its Lease.
func withOneLeader(members []Member) []Member {
	leads := func(member Member) bool { return member.Role == "Leader" && member.State == "Healthy" }
	if slices.ContainsFunc(members, leads) {
		for i := range members {
			if members[i].Role == "Leader" && !leads(members[i]) {
				members[i].Role = ""
			}
		}
	}

	return members
}

func roleOf(member etcdcluster.Member) string {
	switch {
	case member.Endpoint != nil && member.Endpoint.Reachable && member.Endpoint.Learner, member.Listed != nil && member.Listed.Learner:
		return "Learner"
	case member.Endpoint != nil && !member.Endpoint.Reachable && member.ClusterReachable:
		return "" // its lease may name a role that another has by now
	case member.Role() == druidv1alpha1.EtcdRoleLeader:
		return "Leader"
	case member.Role() == druidv1alpha1.EtcdRoleMember:
		return "Voter"
	default:
		return ""
	}
}

func memberStateOf(facts Facts, member etcdcluster.Member) string {
	switch {
	case member.IsHealthy():
		return "Healthy"
	case member.Pod == nil && !member.ManagedExternally:
		return "PodMissing"
	case member.Pod != nil && member.Pod.Deleting:
		return "PodTerminating"
	case member.Endpoint != nil && member.Endpoint.Reachable && member.Endpoint.Learner:
		return "Learner"
	}
	for _, known := range facts.Etcd.Status.Members {
		if known.Name == member.Name && known.Status != druidv1alpha1.EtcdMemberStatusReady {
			return known.Reason
		}
	}
	if member.Endpoint != nil && !member.Endpoint.Reachable {
		return "Unreachable"
	}
	if member.Pod != nil && member.Pod.Phase != string(corev1.PodRunning) {
		return member.Pod.Phase
	}

	return "Unknown"
}
