// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package storejob finds the values of Jobs that read the backup store of an Etcd: the store, the node and the image.
//
// What may not live here: manifests, and the decision when a Job runs.
package storejob

import (
	"context"
	"errors"
	"fmt"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	componentcompaction "github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
)

// Observer reads the state of one Etcd.
type Observer interface {
	// Observe reads the cluster of a canonical Etcd once. The Observation records read errors.
	Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
	// HostPath returns the directory of a Local store on a node. Empty: the store is not Local, or its Secret does not name the
	// directory.
	HostPath(ctx context.Context, namespace string, store backupstore.Store) (string, error)
}

// Values returns the values of a Job's manifest without its limits. They match the values from which the members' pods were rendered. If
// waitsFor is not empty, it names what is missing. roots and allowed are what the operator's configuration allows.
func Values(ctx context.Context, reader Observer, roots backupstore.LocalRoots, allowed restrictions.Restrictions, etcd *druidv1alpha1.Etcd) (values componentcompaction.Values, waitsFor string, err error) {
	observation := reader.Observe(ctx, etcd, observer.Request{Gardener: true})
	accepted, pinned := observation.State.Accepted, observation.State.Store
	if accepted == nil {
		return values, "the Etcd to be rolled out", nil
	}
	if errs := allowed.ValidateEtcd(etcd, accepted.Spec); len(errs) > 0 { // the generation may not be accepted
		return values, "a spec that the operator may use: " + errs.ToAggregate().Error(), nil
	}
	if message := observation.State.StoreError; message != "" {
		return values, "", errors.New(message)
	}
	resolution := backupstore.Resolve(backupstore.ResolveInput{Etcd: etcd, Gardener: observation.Gardener, Pinned: pinned})
	if resolution.Store == nil {
		return values, resolution.Message, nil
	}
	store := *resolution.Store
	hostPath, err := reader.HostPath(ctx, etcd.Namespace, store)
	if err != nil {
		return values, "", err
	}
	if store, err = roots.Locate(store, hostPath); err != nil {
		return values, "a store that the operator may use: " + err.Error(), nil //nolint:nilerr // the Job waits, and the caller reports the error
	}
	if pinned != nil && pinned.HostPath != store.HostPath {
		return values, fmt.Sprintf("the Secret of the store to name the directory of the cluster: set its key %s from %q to %q", backupstore.KeyHostPath, store.HostPath, pinned.HostPath), nil
	}

	if version := changingFrom(observation); version != "" {
		return values, fmt.Sprintf("the members to change from etcd %s to %s", version, observation.State.EtcdVersion), nil
	}

	node := ""
	if store.Provider == backupstore.ProviderLocal {
		leader := reader.Observe(ctx, etcd, observer.Request{QueryEtcd: true}).Leader()
		if leader == nil || leader.Node == "" {
			return values, "a member that leads: a Local store is a directory of the node on which that one runs", nil
		}
		node = leader.Node
	}

	return componentcompaction.Values{
		Etcd:  etcd,
		Store: store,
		Node:  node,
		Image: accepted.Defaults.ImagesOf(observation.State.EtcdVersion).BackupRestore,
	}, "", nil
}

// changingFrom returns the minor version of etcd of a pod that does not have the recorded version yet. Its sidecar may have to restore what the Job
// stores. Empty: there is none.
func changingFrom(o etcdcluster.Observation) string {
	defaults := o.State.Accepted.Defaults
	recorded := defaults.ImagesOf(o.State.EtcdVersion).BackupRestore
	for _, pod := range o.Pods {
		image := pod.Image(etcdcluster.ContainerBackupRestore)
		for minor, images := range defaults.ImageSets {
			if minor != o.State.EtcdVersion && image == images.BackupRestore && image != recorded {
				return minor
			}
		}
	}

	return ""
}
