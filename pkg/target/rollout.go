// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// acceptance is what a generation is rendered with, within the limits of the rollout of new defaults.
type acceptance struct {
	// accepted is what it is rendered with. Nil: it is not accepted.
	accepted *state.Accepted
	// waits is the change of the defaults that the limits do not allow yet. Nil: none.
	waits *state.Change
	// begins is the update to newer defaults that begins with this rendering. Nil: none.
	begins *state.Rollout
}

// limit returns what a generation is rendered with if it may have the newest defaults. Without a grant, a cluster that ran keeps the recorded defaults.
// What only the spec changes is not limited.
func limit(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, config Config, newest state.Accepted) acceptance {
	newest.Delayed = false
	recorded := o.State.Accepted
	if config.Rollout == nil || recorded == nil || o.State.Size == 0 || !helper.ManagesPods(etcd) {
		return acceptance{accepted: &newest}
	}
	earlier := newest
	earlier.Defaults, earlier.Delayed = newest.Defaults.WithPodsOf(recorded.Defaults), true
	switch {
	case newest.EtcdVersion == recorded.EtcdVersion: // also if the members cannot change to it yet
	case helper.EtcdVersion(etcd) == "":
		unchanged := config
		unchanged.EtcdVersion = ""
		earlier.EtcdVersion = versionFor(etcd, o, unchanged)
	case etcdversion.Compare(newest.EtcdVersion, recorded.EtcdVersion) != 0:
		return acceptance{accepted: &newest} // the spec requests other images
	}
	if _, has := earlier.Defaults.ImageSets[earlier.EtcdVersion]; !has && earlier.EtcdVersion != "" {
		return acceptance{accepted: &newest} // the recorded defaults have no images of the version that runs
	}
	change := state.Change{From: rollout.Fingerprint(etcd.Spec, earlier), To: rollout.Fingerprint(etcd.Spec, newest)}
	switch granted := o.RolloutGrant; {
	case change.From == change.To:
		return acceptance{accepted: &newest}
	case granted != nil && granted.Change == change && (!granted.Canary || areMembersReady(o)):
		return acceptance{accepted: &newest, begins: granted}
	default:
		return acceptance{accepted: &earlier, waits: &change}
	}
}

// continueDelayed returns what an accepted generation is rendered with. If newer defaults waited for a slot, or an update to earlier ones has not passed, it
// gets the newest defaults within the limits.
func continueDelayed(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, config Config, recorded *state.Accepted) acceptance {
	if !recorded.Delayed && (config.Rollout == nil || !isUpdatingTo(rollout.Fingerprint(etcd.Spec, *recorded), o.State.Rollout)) {
		return acceptance{accepted: recorded}
	}
	newest := *recorded
	newest.Defaults, newest.EtcdVersion = config.defaultsFor(o), versionFor(etcd, o, config)

	return limit(etcd, o, config, newest)
}

// isUpdatingTo is true if the update to the defaults with a fingerprint has not passed. An update to other defaults has ended.
func isUpdatingTo(fingerprint string, recorded *state.Rollout) bool {
	return recorded.IsUnfinished() && recorded.To == fingerprint
}

// areMembersReady is true if all pods that the StatefulSet wants are ready. Otherwise the Etcd is no canary.
func areMembersReady(o etcdcluster.Observation) bool {
	return o.StatefulSet.Exists && int(o.StatefulSet.SpecReplicas) == len(o.Pods) &&
		!slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool { return !pod.Ready || pod.Deleting })
}

// ContinueRollout gives the last accepted generation newer defaults for which it waited, within the limits. It is done once an observation exists.
func (t *Target) ContinueRollout(o etcdcluster.Observation, config Config) {
	t.setAcceptance(continueDelayed(t.Canonical, o, config, t.Accepted))
}

// setAcceptance sets what the generation is rendered with.
func (t *Target) setAcceptance(a acceptance) {
	record := *a.accepted
	t.Accepted, t.Waits, t.Begins = &record, a.waits, a.begins
}

// Fingerprint identifies the defaults with which the generation is rendered.
func (t *Target) Fingerprint() string { return rollout.Fingerprint(t.Canonical.Spec, *t.Accepted) }
