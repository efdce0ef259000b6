// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
//
// New defaults of the operator wait for a slot of their rollout, see limit.
func accept(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, config Config) acceptance {
	recorded := o.State.Accepted
	isAccepted := recorded != nil && recorded.Generation == etcd.Generation
	isNew := !o.ManagedResource.Exists && (etcd.Status.ObservedGeneration == nil || !o.StatefulSet.Exists)

	switch {
	case helper.IsReconcileRequested(etcd), isNew, config.AutoReconcile && !isAccepted:
		return limit(etcd, o, config, state.Accepted{Generation: etcd.Generation, Defaults: config.defaultsFor(o), CADataKeys: caDataKeys(etcd, o), EtcdVersion: versionFor(etcd, o, config)})
	case isAccepted:
		return continueDelayed(etcd, o, config, recorded)
	default:
		return acceptance{}
	}
}

// NeedsMembers is true if the minor version of etcd of the generation depends on what the members report. This is the case if the generation requests
// another version than the recorded one, or another image of etcd-wrapper than the StatefulSet has. The observation contains the record and the
// StatefulSet.
func (t *Target) NeedsMembers(o etcdcluster.Observation, config Config) bool {
	accepted := t.accepted(o, config)
	if accepted == nil {
		return false
	}
	image := ptr.Deref(t.Canonical.Spec.Etcd.Image, accepted.Defaults.ImagesOf(accepted.EtcdVersion).EtcdWrapper)

	return t.RequestsVersionChange(o, config) || o.StatefulSet.EtcdImage != "" && o.StatefulSet.EtcdImage != image
}

// RequestsVersionChange is true if the generation requests another minor version of etcd than the recorded one.
func (t *Target) RequestsVersionChange(o etcdcluster.Observation, config Config) bool {
	accepted := t.accepted(o, config)

	return accepted != nil && accepted.EtcdVersion != "" && etcdversion.Compare(accepted.EtcdVersion, o.State.EtcdVersion) != 0
}

// RequestsDowngrade is true if the generation requests an older minor version of etcd than the recorded one.
func (t *Target) RequestsDowngrade(o etcdcluster.Observation, config Config) bool {
	accepted := t.accepted(o, config)

	return accepted != nil && accepted.EtcdVersion != "" && etcdversion.Compare(accepted.EtcdVersion, o.State.EtcdVersion) < 0
}

// accepted returns what the generation is rendered with. Nil: it is not accepted.
func (t *Target) accepted(o etcdcluster.Observation, config Config) *state.Accepted {
	if t.Source == LastAccepted {
		return t.Accepted
	}

	return accept(t.Canonical, o, config).accepted
}

// versionFor returns the minor version of etcd of a generation that is accepted now. Only spec.etcd.version requests an older version than the
// recorded one: gardenlet may prune the field, and an administrator may disable the feature gate. A hibernated cluster changes after its
// wake-up. The version of an image that the spec names is not known, and the members of a joined cluster are not those of the operator.
func versionFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, config Config) string {
	requested, joins := helper.EtcdVersion(etcd), etcdcluster.ExistingCluster(etcd, o.State) != nil
	running := runningVersion(o, config)
	switch {
	case requested != "":
		return requested
	case o.State.Accepted == nil && o.StatefulSet.Exists && running == "":
		return "" // the version of an adopted cluster is not known yet
	case o.State.Accepted != nil || o.StatefulSet.Exists:
		if helper.HasOwnImage(etcd) || helper.IsHibernated(etcd) || !helper.ManagesPods(etcd) || joins {
			return etcdversion.OrOldest(running)
		}

		return etcdversion.Max(running, config.EtcdVersion)
	case joins:
		return etcdversion.Max("", newestOf(o.Etcd.Existing))
	default:
		return etcdversion.Max(config.NewEtcdVersion, config.EtcdVersion)
	}
}

// runningVersion returns the recorded version, or a newer one that all members report which respond. An image of the spec or of the image vector may
// contain a newer version than the record. The version of a cluster to be adopted can also be known from its image. Empty: it is not known.
func runningVersion(o etcdcluster.Observation, config Config) string {
	recorded := o.State.EtcdVersion
	if recorded == "" && o.State.Accepted == nil {
		for _, minor := range etcdversion.Supported() { // the newest one, if an overwrite has the same image for two versions
			if images, has := config.Defaults.ImageSets[minor]; has && images.EtcdWrapper == o.StatefulSet.EtcdImage {
				recorded = minor
			}
		}
	}
	reported := ""
	for _, member := range o.Etcd.Members {
		minor := etcdversion.MinorOf(member.Version)
		switch {
		case !member.Reachable:
		case !etcdversion.IsSupported(minor):
			return recorded
		case reported == "" || etcdversion.Compare(minor, reported) < 0:
			reported = minor
		}
	}
	if reported != "" && etcdversion.Compare(reported, recorded) > 0 {
		return reported
	}

	return recorded
}

// unknownVersionResync is the pause after which the version of an adopted cluster is requested again.
const unknownVersionResync = 10 * time.Second

// AwaitVersion returns a problem for a cluster to be adopted if no member reports its version, and neither the image nor the spec names it. It also
// returns one if the operator has no images of the version. Members with an older version cannot use the data of a newer one.
func (t *Target) AwaitVersion(o etcdcluster.Observation) error {
	adopted := o.State.EtcdVersion
	switch {
	case o.ManagedResource.Exists || !o.StatefulSet.Exists || !helper.ManagesPods(t.Canonical):
		return nil
	case adopted != "" && !etcdversion.IsSupported(adopted):
		return plan.Waiting(unknownVersionResync, "Waiting for the members to run a version of etcd for which the operator has images, %s: a member reports %s", strings.Join(etcdversion.Supported(), " or "), adopted)
	case t.Accepted.EtcdVersion != "", t.Canonical.Spec.Etcd.Image != nil && t.Canonical.Spec.Backup.Image != nil:
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

// validateVersion rejects a version of etcd for which the operator has no images, for example one that a later operator has recorded. It also rejects
// names of members with a prefix in a new Etcd if the sidecar of the version does not know them. Such a sidecar finds neither the URLs nor the Lease
// of its member, and never starts etcd. The contents of images of the spec are not known.
func validateVersion(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, accepted state.Accepted) field.ErrorList {
	version, prefix := accepted.EtcdVersion, ptr.Deref(etcd.Spec.MemberNamePrefix, "")
	if _, has := accepted.Defaults.ImageSets[version]; !has {
		if version == "" || etcd.Spec.Etcd.Image != nil && etcd.Spec.Backup.Image != nil {
			return nil
		}

		return field.ErrorList{field.NotSupported(field.NewPath("spec", "etcd", "version"), version, slices.Sorted(maps.Keys(accepted.Defaults.ImageSets)))}
	}
	if prefix == "" || etcd.Spec.Backup.Image != nil || o.State.Accepted != nil || o.StatefulSet.Exists || etcdversion.Compare(version, etcdversion.V35) >= 0 {
		return nil
	}

	return field.ErrorList{field.Invalid(field.NewPath("spec", "memberNamePrefix"), prefix, fmt.Sprintf("needs etcd-backup-restore v0.43.0 or newer, and the operator's image for etcd %s is older: set spec.etcd.version to %s, enable the feature gate UpgradeEtcdVersion of the operator, or set spec.backup.image",
		version, etcdversion.V35))}
}

// caDataKeys returns the keys under which the CA Secrets of the spec hold the bundle, where the spec does not name a key. It returns the keys of Secrets
// as well that pods still mount and the spec does not name any more.
func caDataKeys(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) map[string]string {
	keys := map[string]string{}
	maps.Copy(keys, etcdcluster.MountedCAKeys(o))
	for _, ref := range helper.CAReferences(etcd) {
		delete(keys, ref.Name)
		if ref.DataKey == nil || *ref.DataKey == "" {
			keys[ref.Name] = etcdcluster.CAKey(ref, o)
		}
	}
	if len(keys) == 0 {
		return nil
	}

	return keys
}
