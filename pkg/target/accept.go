// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// accept decides whether the generation of an Etcd may be rolled out and with what. Nil: it has to wait for the operation annotation; what
// was rolled out before stays. A generation is accepted in these cases:
//   - the operation annotation requests it;
//   - the Etcd is new, or nothing of it is left;
//   - the operator reconciles automatically, and the generation was not accepted before.
func accept(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, config Config) *state.Accepted {
	recorded := o.State.Accepted
	isAccepted := recorded != nil && recorded.Generation == etcd.Generation
	isNew := !o.ManagedResource.Exists && (etcd.Status.ObservedGeneration == nil || !o.StatefulSet.Exists)

	switch {
	case helper.IsReconcileRequested(etcd), isNew, config.AutoReconcile && !isAccepted:
		return &state.Accepted{Generation: etcd.Generation, Defaults: config.Defaults, CADataKeys: caDataKeys(etcd, o), EtcdVersion: versionFor(etcd, o, config)}
	case isAccepted:
		return recorded
	default:
		return nil
	}
}

// RequestedVersion returns the minor version of etcd that the generation requests. The observation contains the record and the StatefulSet. Empty:
// the generation is not accepted, or requests none.
func (t *Target) RequestedVersion(o etcdcluster.Observation, config Config) string {
	accepted := t.Accepted
	if t.Source == Newest {
		accepted = accept(t.Canonical, o, config)
	}
	if accepted == nil {
		return ""
	}

	return accepted.EtcdVersion
}

// versionFor returns the minor version of etcd of a generation that is accepted now. Only spec.etcd.version requests an older version than the
// recorded one: gardenlet may prune the field, and an administrator may disable the feature gate. A hibernated cluster changes after its
// wake-up. The version of an image that the spec names is not known, and the members of a joined cluster are not those of the operator.
func versionFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, config Config) string {
	recorded, requested := o.State.EtcdVersion, helper.EtcdVersion(etcd)
	runs := o.State.Accepted != nil || o.StatefulSet.Exists
	switch {
	case requested != "":
		return requested
	case runs && recorded == "" && o.State.Accepted == nil:
		return "" // the version of an adopted cluster is not known yet
	case runs && (helper.HasOwnImage(etcd) || helper.IsHibernated(etcd) || !helper.ManagesPods(etcd) || etcd.Spec.Etcd.BootstrapWithExistingCluster != nil):
		return etcdversion.OrOldest(recorded)
	case etcd.Spec.Etcd.BootstrapWithExistingCluster != nil:
		return etcdversion.Max("", newestOf(o.Etcd.Existing))
	default:
		return etcdversion.Max(recorded, config.EtcdVersion)
	}
}

// unknownVersionResync is the pause after which the version of an adopted cluster is requested again.
const unknownVersionResync = 10 * time.Second

// AwaitVersion returns a problem for a cluster to be adopted if no member reports its version, and neither the image nor the spec names it. Members
// with an older version cannot use the data of a newer one.
func (t *Target) AwaitVersion(o etcdcluster.Observation) error {
	if t.Accepted.EtcdVersion != "" || o.ManagedResource.Exists || !o.StatefulSet.Exists || !helper.ManagesPods(t.Canonical) {
		return nil
	}

	return plan.Waiting(unknownVersionResync, "Waiting for a member to report its version of etcd, or for spec.etcd.version: the version in image %q is not known, and members with an older version cannot use the data", o.StatefulSet.EtcdImage)
}

// newestOf is the newest minor version that an endpoint reports. Empty: none does.
func newestOf(endpoints []etcdcluster.EndpointStatus) string {
	newest := ""
	for _, endpoint := range endpoints {
		if minor := etcdversion.MinorOf(endpoint.Version); etcdversion.IsSupported(minor) {
			newest = etcdversion.Max(newest, minor)
		}
	}

	return newest
}

// validatePrefix rejects names of members with a prefix if the operator would run a sidecar that does not know them. Such a sidecar finds neither
// the URLs nor the Lease of its member, and never starts etcd. The sidecar in an image of the spec is not known.
func validatePrefix(etcd *druidv1alpha1.Etcd, accepted state.Accepted) *field.Error {
	prefix := ptr.Deref(etcd.Spec.MemberNamePrefix, "")
	_, hasImages := accepted.Defaults.ImageSets[accepted.EtcdVersion]
	if prefix == "" || !hasImages || etcd.Spec.Backup.Image != nil || etcdversion.Compare(accepted.EtcdVersion, etcdversion.V35) >= 0 {
		return nil
	}

	return field.Invalid(field.NewPath("spec", "memberNamePrefix"), prefix, fmt.Sprintf("needs etcd-backup-restore v0.43.0 or newer, and the operator's image for etcd %s is older: set spec.etcd.version to %s, or set spec.backup.image", accepted.EtcdVersion, etcdversion.V35))
}

// caDataKeys returns the keys under which the CA Secrets of the spec hold the bundle, where the spec does not name a key.
func caDataKeys(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) map[string]string {
	var refs []druidv1alpha1.SecretReference
	if tls := helper.ClientTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}
	if tls := helper.PeerTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}
	if tls := helper.BackupTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}

	keys := map[string]string{}
	for _, ref := range refs {
		if ref.DataKey == nil || *ref.DataKey == "" {
			keys[ref.Name] = etcdcluster.CAKey(ref, o)
		}
	}
	if len(keys) == 0 {
		return nil
	}

	return keys
}
