// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Source says which generation a Target describes.
type Source string

// The sources of a Target.
const (
	// Newest is the generation of the stored spec.
	Newest Source = "Newest"
	// LastAccepted is the generation that was accepted last. It is reconciled while the newest one is blocked.
	LastAccepted Source = "LastAccepted"
)

// Config is the part of the operator's configuration that decides how specs are resolved.
type Config struct {
	// AutoReconcile makes the operator roll out each new generation without the operation annotation.
	AutoReconcile bool
	// Defaults are what a generation is rendered with that is accepted from now on.
	Defaults state.Defaults
	// RestrictsNewOnly renders no NetworkPolicies for an Etcd that has run without them. False: with the next accepted generation, each Etcd gets those of
	// Defaults.
	RestrictsNewOnly bool
	// EtcdVersion is the minor version of etcd of Etcds whose spec has none, and to which running clusters are upgraded. Empty: 3.4.
	EtcdVersion string
	// NewEtcdVersion is the minor version of etcd of new Etcds whose spec has none. It upgrades no running cluster. Empty, or older than EtcdVersion:
	// EtcdVersion.
	NewEtcdVersion string
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
	// Restrictions are the values that authors may select in a generation that is rolled out. Zero: all.
	Restrictions restrictions.Restrictions
	// StoreTimeout is how long the replacement of a member on a lost node waits for the backup store. 0: without limit.
	StoreTimeout time.Duration
	// UpdateStrategy is the update strategy of Etcds whose spec and annotations have none. Empty: Restart.
	UpdateStrategy druidv1alpha1.UpdateStrategy
	// RecoveryDwellTime is how long a quorum must be lost forever before the operator recovers the cluster by a recovery policy.
	RecoveryDwellTime time.Duration
	// RecoveryMaxClusters is the largest number of clusters without a quorum with which it does.
	RecoveryMaxClusters int
	// Rollout limits how many Etcds change to new defaults at once. Nil: no limits.
	Rollout *rollout.Limits
	// EtcdHelper is the image of etcd-helper. It is not a default that an Etcd keeps: the helper has to be of the operator's version.
	EtcdHelper EtcdHelper
}

// EtcdHelper is the image of etcd-helper.
type EtcdHelper struct {
	// Image is a complete reference. Empty: it is not known, and Jobs that need it are not created.
	Image string
	// PullSecrets name Secrets in the namespace of the Etcd. Nil: none.
	PullSecrets []corev1.LocalObjectReference
}

// DefaultStoreTimeout is the default of Config.StoreTimeout in the configuration of the operator.
const DefaultStoreTimeout = 30 * time.Minute

// Target is the desired state of one generation, as far as it is resolved.
type Target struct {
	// Stored is the Etcd as it was read. For LastAccepted it has the generation and the spec that were accepted, and no annotation that
	// requests an operation.
	Stored *druidv1alpha1.Etcd
	// Canonical is Stored with deprecated fields mapped to current ones, as far as they can be mapped. It is never changed.
	Canonical *druidv1alpha1.Etcd
	// Etcd is what is planned for and rendered. It is Canonical with the peer port that the members must keep, and, after SetSecrets,
	// with the Secrets that the operator provides. After ResolveCAChange, it has the Secrets of the current stage.
	Etcd *druidv1alpha1.Etcd
	// DefaultUpdateStrategy is what the ManagedResource records of Config.UpdateStrategy. Empty: Restart, or SetUpdateStrategy was not called.
	DefaultUpdateStrategy druidv1alpha1.UpdateStrategy
	// Source says which generation this is.
	Source Source
	// Accepted is what the generation is rendered with. Nil: it is not accepted yet.
	Accepted *state.Accepted
	// Warnings are values of the spec outside of a bound, with which the cluster runs already.
	Warnings field.ErrorList
	// Waits is the change of the operator's defaults that waits for a slot of its rollout. Nil: none does.
	Waits *state.Change
	// Begins is the granted update to newer defaults that begins with this target. Nil: none does.
	Begins *state.Rollout
	// TLS are the TLS modes. Zero before ResolveTLS.
	TLS state.TLSModes
	// Rotation is the CA rotation that is rendered. Zero before ResolveTLS, and if the operator manages no CA.
	Rotation state.Rotation
	// Secrets are the names of the Secrets that the operator provides for the pods. Zero: none, or not provided yet.
	Secrets secrets.Names
	// CAChange is the change to CAs or certificates that not all pods verify. Zero before SetSecrets, and if there is none.
	CAChange CAChange
	// Certificates are the checksums of the certificates of the user. Nil before ResolveCertificates, if the user provides none, and if one of them
	// was always missing.
	Certificates *state.Certificates
	// Store is the backup store. Nil: the spec has none, or it is not resolved yet.
	Store *backupstore.Store
	// StoreRecord is what the ManagedResource records of the store. Nil if Store is nil.
	StoreRecord *state.Store
	// StoreUser is the other object because of which the store cannot be used, or not without a conflict. Nil: there is none.
	StoreUser *etcdcluster.StoreUser
	// NetworkPolicies are the peers of the NetworkPolicies. Nil: there are no NetworkPolicies, or ResolveNetworkPolicies was not called yet.
	NetworkPolicies *state.NetworkPolicies
	// IsUnrestricted is true if new Etcds get NetworkPolicies, and this one has run without. False: ResolveNetworkPolicies was not called yet.
	IsUnrestricted bool
	// StoreResolution is the result of ResolveStore for the condition StoreResolved. Nil before ResolveStore.
	StoreResolution *conditions.StoreResolution

	problem error
}

// ForNewest returns the target of the stored spec.
func ForNewest(stored *druidv1alpha1.Etcd) *Target {
	canonical, errs := helper.Canonical(stored)
	t := &Target{Stored: stored, Canonical: canonical, Etcd: canonical, Source: Newest}
	if len(errs) > 0 {
		t.problem = plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, errs.ToAggregate())
	}

	return t
}

// ForLastAccepted returns the target of the generation that was accepted last, as if the Etcd still had its spec. Annotations of the Etcd that
// describe it and never need to be accepted apply as they are. Those that request an operation belong to the newest generation. It returns
// nil in these cases:
//   - nothing is recorded, or the ManagedResource does not exist or is being deleted;
//   - the Etcd is handed back to etcd-druid: its Secrets may belong to etcd-druid already, and the operator would issue others;
//   - a user has removed the record of the store, to change to another one, of which the accepted spec knows nothing.
//
// newest is the blocked target of the same Etcd. blocked is true if status.lastOperation is about to report that it is: the record says then
// whether the accepted generation was completed.
func ForLastAccepted(newest *Target, o etcdcluster.Observation, blocked bool) *Target {
	accepted := o.State.Accepted
	switch {
	case !o.ManagedResource.Exists, o.ManagedResource.Deleting, o.State.HandBack != 0, accepted == nil, accepted.Spec == nil:
		return nil
	case accepted.Spec.Backup.Store != nil && o.State.Store == nil && o.State.StoreError == "":
		return nil
	}
	etcd := newest.Stored.DeepCopy()
	etcd.Generation, etcd.Spec = accepted.Generation, *accepted.Spec.DeepCopy()
	etcd.Spec.RecoveryPolicy = newest.Stored.Spec.RecoveryPolicy // it changes no pod, and a user forbids a recovery with immediate effect
	helper.RemoveOperationAnnotations(etcd)
	delete(etcd.Annotations, druidv1alpha1.RestoreAnnotation)
	if newest.problem != nil {
		delete(etcd.Annotations, druidv1alpha1.RotateCAAnnotation) // the operator removes it once the spec can be read
	}
	record := *accepted
	record.Completed = record.Completed || blocked && IsCompleted(etcd)

	return &Target{Stored: etcd, Canonical: etcd.DeepCopy(), Etcd: etcd.DeepCopy(), Source: LastAccepted, Accepted: &record}
}

// Problem is why the stored spec has no canonical form, which is then not reconciled. Nil: it has one.
func (t *Target) Problem() error { return t.problem }

// IsCompleted is true if the generation was rolled out to its end before, and no operation is requested. What happens afterwards leaves the
// last operation alone, and replaces no pod that another writer of the StatefulSet has outdated.
func (t *Target) IsCompleted() bool {
	return IsCompleted(t.Stored) || t.Source == LastAccepted && t.Accepted.Completed
}

// IsCompleted is true if the last operation of an Etcd succeeded with its current generation, and no operation is requested.
func IsCompleted(etcd *druidv1alpha1.Etcd) bool {
	last, observed := etcd.Status.LastOperation, etcd.Status.ObservedGeneration

	return last != nil && last.State == druidv1alpha1.LastOperationStateSucceeded &&
		observed != nil && *observed == etcd.Generation && !helper.IsReconcileRequested(etcd)
}

// Admit decides whether the newest generation is rolled out, and with what. It is done once an observation exists. The error is why it is not.
func (t *Target) Admit(o etcdcluster.Observation, config Config) error {
	if helper.IsSuspended(t.Canonical) {
		return plan.Skipped(druidv1alpha1.ReasonSuspended, "Generation %d is not rolled out because of the annotation %s", t.Canonical.Generation, druidv1alpha1.SuspendEtcdSpecReconcileAnnotation)
	}
	decided := accept(t.Canonical, o, config)
	if decided.accepted == nil {
		return plan.Skipped(druidv1alpha1.ReasonOperationAnnotationMissing, "Generation %d is rolled out when the annotation %s=%s requests it",
			t.Canonical.Generation, druidv1alpha1.DruidOperationAnnotation, druidv1alpha1.DruidOperationReconcile)
	}
	t.setAcceptance(decided)
	t.Accepted.Spec = &t.Canonical.Spec
	errs, warnings := validation.ValidateBounds(t.Canonical, t.SpecBefore(o))
	errs = slices.Concat(validation.ValidateEtcd(t.Canonical), errs, validateVersion(t.Canonical, o, *t.Accepted), config.Restrictions.ValidateEtcd(t.Canonical, nil))
	t.Warnings = warnings

	return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, errs.ToAggregate())
}

// SpecBefore returns the spec with which the cluster runs: that of the last accepted generation, or that of a cluster to be adopted. Nil: the
// cluster is new.
func (t *Target) SpecBefore(o etcdcluster.Observation) *druidv1alpha1.EtcdSpec {
	switch {
	case o.State.AcceptedSpec() != nil:
		return o.State.AcceptedSpec()
	case o.StatefulSet.Exists:
		return &t.Canonical.Spec
	default:
		return nil
	}
}

// SetVersion sets the version of etcd in Etcd to that of the accepted generation. It sets none if that is not known.
func (t *Target) SetVersion() {
	version := t.Accepted.EtcdVersion
	if version == helper.EtcdVersion(t.Etcd) {
		return
	}
	t.Etcd = t.Etcd.DeepCopy()
	t.Etcd.Spec.Etcd.Version = &version
}

// SetUpdateStrategy sets the update strategy in Etcd to the one that applies now. It is not part of an accepted generation, because it changes no
// pod.
func (t *Target) SetUpdateStrategy(config Config) {
	t.Etcd = helper.WithUpdateStrategy(t.Etcd, config.UpdateStrategy)
	if config.UpdateStrategy != druidv1alpha1.UpdateStrategyRestart {
		t.DefaultUpdateStrategy = config.UpdateStrategy
	}
}

// PinPort sets Etcd to Canonical with the peer port that the members must keep for now.
func (t *Target) PinPort(o etcdcluster.Observation, now time.Time) {
	t.Etcd = peers.WithPinnedPort(t.Canonical, o, now)
}
