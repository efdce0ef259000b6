// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// SpecForEtcdDruid returns an Etcd whose spec alone describes its running cluster. From this spec etcd-druid renders the same
// without the API extensions and the record on the ManagedResource. It names the Secrets that the pods mount and the resolved
// store. The error states why this is not possible, and the remedy.
func SpecForEtcdDruid(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (*druidv1alpha1.Etcd, error) {
	canonical, errs := helper.Canonical(etcd)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if usesDeprecatedFields(etcd) {
		return nil, errors.New("its manifest has deprecated fields, which etcd-druid does not read: use the current fields")
	}
	spec := canonical.DeepCopy()
	if err := setTLS(spec, runningModes(etcd, o), o.StatefulSet.TLS); err != nil {
		return nil, err
	}
	if err := setStore(spec, o.State); err != nil {
		return nil, err
	}
	setVersion(spec, o.State)

	return spec, nil
}

// setVersion replaces the version of etcd, which etcd-druid does not know, by the images of the rendered version. etcd-druid has images of etcd 3.4 by
// default, which cannot use the data of a newer version without a downgrade.
func setVersion(etcd *druidv1alpha1.Etcd, recorded state.State) {
	etcd.Spec.Etcd.Version = nil
	if recorded.Accepted == nil || etcdversion.Compare(recorded.EtcdVersion, etcdversion.V34) <= 0 {
		return
	}
	images := recorded.Accepted.Defaults.ImagesOf(recorded.EtcdVersion)
	if etcd.Spec.Etcd.Image == nil {
		etcd.Spec.Etcd.Image = &images.EtcdWrapper
	}
	if etcd.Spec.Backup.Image == nil {
		etcd.Spec.Backup.Image = &images.BackupRestore
	}
}

func usesDeprecatedFields(etcd *druidv1alpha1.Etcd) bool {
	none := druidv1alpha1.EtcdSpec{}

	return !equality.Semantic.DeepEqual(etcd.Spec.DeprecatedSpecFields, none.DeprecatedSpecFields) ||
		!equality.Semantic.DeepEqual(etcd.Spec.Etcd.DeprecatedEtcdFields, none.Etcd.DeprecatedEtcdFields) ||
		!equality.Semantic.DeepEqual(etcd.Spec.Backup.DeprecatedBackupFields, none.Backup.DeprecatedBackupFields)
}

// setTLS references the mounted Secrets. If TLS is disabled it removes all references, since etcd-druid does not know
// enableTLS.
func setTLS(etcd *druidv1alpha1.Etcd, modes state.TLSModes, mounted etcdcluster.MountedTLS) error {
	if modes.Client == state.ModeDisabled || modes.Peer == state.ModeDisabled {
		etcd.Spec.Etcd.ClientUrlTLS, etcd.Spec.Etcd.PeerUrlTLS, etcd.Spec.Backup.TLS, etcd.Spec.Etcd.EnableTLS = nil, nil, nil, nil

		return nil
	}
	etcd.Spec.Etcd.EnableTLS = nil
	if modes.Client == state.ModeManaged {
		if mounted.ClientCA == "" || mounted.Server == "" || mounted.Client == "" {
			return errors.New("its StatefulSet does not mount the certificates that were issued for clients: reconcile it first")
		}
		etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
			TLSCASecretRef: bundleIn(etcd, mounted.ClientCA), ServerTLSSecretRef: secretIn(etcd, mounted.Server), ClientTLSSecretRef: secretIn(etcd, mounted.Client),
		}
	}
	if modes.Peer == state.ModeManaged {
		if mounted.PeerCA == "" || mounted.Peer == "" {
			return errors.New("its StatefulSet does not mount the certificates that were issued for its members: reconcile it first")
		}
		etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{TLSConfig: druidv1alpha1.TLSConfig{
			TLSCASecretRef: bundleIn(etcd, mounted.PeerCA), ServerTLSSecretRef: secretIn(etcd, mounted.Peer),
		}}
	}
	if etcd.Spec.Backup.TLS == nil && etcd.Spec.Etcd.ClientUrlTLS != nil {
		// The sidecar uses the server certificate of etcd. etcd-druid needs an explicit reference.
		etcd.Spec.Backup.TLS = etcd.Spec.Etcd.ClientUrlTLS.DeepCopy()
	}

	return nil
}

// setStore sets the location of the snapshots, and the Secret with the credentials.
func setStore(etcd *druidv1alpha1.Etcd, recorded state.State) error {
	store := etcd.Spec.Backup.Store
	if store == nil {
		return nil
	}
	if recorded.StoreError != "" {
		return errors.New(recorded.StoreError)
	}
	pin := recorded.Store
	if pin == nil {
		if store.Provider == nil || store.Container == nil || store.Prefix == "" || backupstore.NeedsEntry(*store) {
			return errors.New("where its snapshots go is not known: reconcile it first, so that its store is resolved")
		}

		return nil
	}
	if store.Provider == nil {
		store.Provider = new(druidv1alpha1.StorageProvider(pin.Provider))
	}
	if store.Container == nil {
		store.Container = &pin.Container
	}
	if store.Prefix == "" {
		store.Prefix = pin.Prefix
	}
	if store.SecretRef == nil && pin.SecretName != "" {
		store.SecretRef = new(secretIn(etcd, pin.SecretName))
	}
	store.BackupEntryRef = nil

	return nil
}

func secretIn(etcd *druidv1alpha1.Etcd, name string) corev1.SecretReference {
	return corev1.SecretReference{Name: name, Namespace: etcd.Namespace}
}

func bundleIn(etcd *druidv1alpha1.Etcd, name string) druidv1alpha1.SecretReference {
	return druidv1alpha1.SecretReference{SecretReference: secretIn(etcd, name), DataKey: new("bundle.crt")}
}

// CheckReconciled returns an error while a change of an Etcd is in progress, which a hand-back would interrupt. It also does so while its data needs the
// operator: etcd-druid compares no data, accepts no rollback, and frees no space.
func CheckReconciled(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	status := etcd.Status
	rotation := ptr.Deref(o.State.Rotation, state.Rotation{})
	switch {
	case etcd.DeletionTimestamp != nil:
		return errors.New("it is being deleted")
	case len(o.Failures) > 0:
		return fmt.Errorf("reading %s: %s", o.Failures[0].Section, o.Failures[0].Message)
	case status.ObservedGeneration == nil || *status.ObservedGeneration != etcd.Generation:
		return errors.New("its newest generation is not rolled out: annotate it with druid.gardener.cloud/operation=reconcile")
	case helper.IsReconcileRequested(etcd):
		return errors.New("its operation annotation is not taken yet")
	case len(status.LastErrors) > 0:
		return fmt.Errorf("its last operation failed: %s", status.LastErrors[0].Description)
	case secrets.DescribeRotation(rotation) != "":
		return fmt.Errorf("its CAs are being rotated (%s)", secrets.DescribeRotation(rotation))
	case !o.ManagedResource.IsApplied():
		return errors.New("its ManagedResource is not applied")
	case o.State.Inconsistency != nil:
		return errors.New("its members have different data: see its condition DataConsistent")
	case unfinished(o.State) != "":
		return fmt.Errorf("%s is not complete", unfinished(o.State))
	case evidence.IsRolledBack(etcd, o):
		return errors.New("it has returned a lower revision than before: see its condition RevisionConfirmed")
	case o.State.Space.IsActive():
		return errors.New("it rejects writes until its database has space: see its condition DatabaseSpaceAvailable")
	case etcd.Spec.Replicas > 0 && helper.ManagesPods(etcd) && !isTrue(etcd, druidv1alpha1.ConditionTypeAllMembersUpdated):
		return errors.New("its members are not all updated")
	default:
		return nil
	}
}

// unfinished describes the procedure that is in progress, or the volume migration that is requested. Empty: there is none.
func unfinished(s state.State) string {
	if s.Migration != nil {
		return "the volume migration"
	}

	return s.Procedure()
}

// minValidity is the minimum remaining validity of a certificate at the hand-back, since it is not renewed afterwards. The
// operator would have renewed it earlier.
const minValidity = 60 * 24 * time.Hour

// FirstToExpire returns the issued certificate in use of a canonical Etcd that expires first: one that its pods mount, or that of
// its applications. Nil: there is none.
func FirstToExpire(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *etcdcluster.CertificateInUse {
	var issued []string
	mounted, modes := o.StatefulSet.TLS, runningModes(etcd, o)
	if modes.Client == state.ModeManaged {
		issued = append(issued, mounted.ClientCA, mounted.Server, mounted.Client)
		if secret := o.ApplicationSecret(); secret != nil {
			issued = append(issued, secret.Name)
		}
	}
	if modes.Peer == state.ModeManaged {
		issued = append(issued, mounted.PeerCA, mounted.Peer)
	}
	var first *etcdcluster.CertificateInUse
	for _, certificate := range etcdcluster.CertificatesInUse(etcd, o) {
		if slices.Contains(issued, certificate.SecretName) && (first == nil || certificate.NotAfter.Before(first.NotAfter)) {
			first = &certificate
		}
	}

	return first
}

// CheckValidity returns an error if an issued certificate of a canonical Etcd would expire soon after the hand-back.
func CheckValidity(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) error {
	first := FirstToExpire(etcd, o)
	if first == nil || first.NotAfter.Sub(now) >= minValidity {
		return nil
	}

	return fmt.Errorf("%s of Secret %s expires at %s, and etcd-druid would not renew it: set predecessor to TakeOver until this operator has",
		first.Key, first.SecretName, first.NotAfter.UTC().Format(time.RFC3339))
}

func runningModes(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) state.TLSModes {
	return secrets.RunningModes(etcd.Name, o.State.TLS, o.StatefulSet.Exists, o.StatefulSet.TLS.ClientCA, o.StatefulSet.TLS.PeerCA)
}

func isTrue(etcd *druidv1alpha1.Etcd, conditionType druidv1alpha1.ConditionType) bool {
	for _, condition := range etcd.Status.Conditions {
		if condition.Type == conditionType {
			return condition.Status == druidv1alpha1.ConditionTrue
		}
	}

	return false
}
