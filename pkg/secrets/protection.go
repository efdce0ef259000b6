// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// ProtectedSecret is the Secret whose finalizer DecideFinalizer decides.
type ProtectedSecret struct {
	// Name of the Secret.
	Name string
	// HasFinalizer is true if the Secret has the finalizer of this operator, which is also the finalizer of etcd-druid.
	HasFinalizer bool
	// Deleting is true if the Secret has a deletion timestamp. The API server then accepts no further finalizers.
	Deleting bool
	// Managed is true if a secrets manager or a BackupEntry owns the Secret. Its owner decides when it is deleted.
	Managed bool
}

// SecretUser is an Etcd, a task, or the remaining pods of a deleted one.
type SecretUser struct {
	// Needed are the Secrets of the last accepted generation of an Etcd, see NeededBy, and those of a copy that runs.
	Needed []string
	// Mounted are the Secrets that StatefulSets, Jobs and pods of the user mount. If the operator does not know what the user needs, they include
	// the Secrets that its spec names. They get no finalizer, and keep one that they have.
	Mounted []string
	// Protects is true if the Needed get the finalizer: the operator reconciles the user, and the user is not being deleted.
	Protects bool
	// EtcdDruid is true for an Etcd that etcd-druid manages and that this operator has not adopted.
	EtcdDruid bool
}

// SecretUsers are the facts about the namespace of a Secret.
type SecretUsers struct {
	// Users are all users in the namespace.
	Users []SecretUser
	// Terminating is true if the namespace is being deleted.
	Terminating bool
	// Disabled is true if the operator protects no Secrets.
	Disabled bool
}

// FinalizerAction is a result of DecideFinalizer.
type FinalizerAction int

const (
	// LeaveFinalizer changes nothing.
	LeaveFinalizer FinalizerAction = iota
	// KeepFinalizer changes nothing either. The Secret is in use, and no event reports the end of this use.
	KeepFinalizer
	// AddFinalizer adds the finalizer.
	AddFinalizer
	// RemoveFinalizer removes the finalizer.
	RemoveFinalizer
)

// NeededBy returns the sorted, unique names of the Secrets of users that the last accepted generation of an Etcd needs. Its pods mount them, or
// its rendering depends on them. Those that its spec only names are not among them. False: the record does not have the accepted spec.
func NeededBy(recorded state.State) (names []string, known bool) {
	switch accepted := recorded.Accepted; {
	case accepted == nil:
		return nil, true
	case accepted.Spec == nil:
		return nil, false
	}
	effective := Effective(&druidv1alpha1.Etcd{Spec: *recorded.Accepted.Spec}, recorded.TLS, Names{})
	for _, use := range helper.NeededSecrets(effective) {
		names = append(names, use.Name)
	}
	slices.Sort(names)

	return slices.Compact(names), true
}

// DecideFinalizer decides whether a Secret has the finalizer. A Secret gets it while the last accepted generation of an Etcd or a running
// copy needs it. A spec that is not accepted adds it to no Secret. A Secret keeps it until no pod and no manifest of a pod mounts it. In a
// namespace that is being deleted no Secret has it. The operator never adds the finalizer to a managed Secret. It leaves the Secrets alone that
// only etcd-druid uses.
func DecideFinalizer(secret ProtectedSecret, in SecretUsers) FinalizerAction {
	use := in.useOf(secret.Name)
	mayHave := !secret.Managed && !in.Disabled && !in.Terminating
	if !secret.HasFinalizer {
		if mayHave && use.isProtected && !secret.Deleting {
			return AddFinalizer
		}

		return LeaveFinalizer
	}
	switch {
	case in.Terminating:
		return RemoveFinalizer
	case in.isOfEtcdDruid(use):
		return LeaveFinalizer
	case !mayHave || !use.isUsed:
		return RemoveFinalizer
	case use.isProtected && !secret.Deleting:
		return LeaveFinalizer
	}

	return KeepFinalizer
}

// secretUse says how a Secret is used.
type secretUse struct {
	// isUsed is true if there is a user. isProtected is true if the use protects the Secret.
	isUsed, isProtected bool
	// byEtcdDruid and byOperator say who manages the users.
	byEtcdDruid, byOperator bool
}

// useOf returns how the users use the Secret with the name.
func (in SecretUsers) useOf(name string) secretUse {
	use := secretUse{}
	for _, user := range in.Users {
		isNeeded := slices.Contains(user.Needed, name)
		if !isNeeded && !slices.Contains(user.Mounted, name) {
			continue
		}
		use.isUsed = true
		use.isProtected = use.isProtected || isNeeded && user.Protects
		use.byEtcdDruid = use.byEtcdDruid || user.EtcdDruid
		use.byOperator = use.byOperator || !user.EtcdDruid
	}

	return use
}

// isOfEtcdDruid is true if etcd-druid manages every user of a Secret. Without any user of the Secret, every user in the namespace counts. The
// finalizer is not the operator's then.
func (in SecretUsers) isOfEtcdDruid(use secretUse) bool {
	if use.isUsed {
		return use.byEtcdDruid && !use.byOperator
	}

	return len(in.Users) > 0 && !slices.ContainsFunc(in.Users, func(user SecretUser) bool { return !user.EtcdDruid })
}
