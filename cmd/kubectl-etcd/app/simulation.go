// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"github.com/gardener/gardener-extension-etcd-druid/imagevector"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// simulate observes the cluster, and returns what the operator would do with the wanted spec. stored is the Etcd as it is stored. Nil: it is
// not.
func (s *session) simulate(ctx context.Context, stored, wanted *druidv1alpha1.Etcd) ([]simulator.Line, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	observation := s.observe(ctx, wanted)
	config, err := configFor(observation)
	if err != nil {
		return nil, err
	}

	return simulator.Plan(simulator.Input{Stored: stored, Wanted: wanted, Observation: observation, Config: config, Now: s.clock.Now()})
}

// observe reads what the operator reads before it plans. The members are queried also if the operator would not need that now.
func (s *session) observe(ctx context.Context, etcd *druidv1alpha1.Etcd) etcdcluster.Observation {
	request := observer.RequestFor(etcd)
	request.QueryEtcd, request.Volumes = true, true
	o := s.observer(ctx).Observe(ctx, etcd, request)
	if recorded := o.State.Store; o.LocalStore.Error != "" && recorded != nil { // the user may not read Secrets
		o.LocalStore = etcdcluster.LocalStore{HostPath: recorded.HostPath}
	}

	return o
}

// configFor returns the configuration of the operator as far as the cluster shows it. The defaults are those of the last rollout. Without
// one, the images are those of this version. The timeout of the store is the default. The
// roots are the directories on nodes that the Local store uses.
func configFor(o etcdcluster.Observation) (target.Config, error) {
	config := target.Config{LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath, o.LocalStore.HostPath}, StoreTimeout: target.DefaultStoreTimeout, EtcdHelper: target.EtcdHelper{Image: "etcd-helper"}}
	config.UpdateStrategy = o.State.DefaultUpdateStrategy
	if recorded := o.State.Store; recorded != nil {
		config.LocalStoreRoots = append(config.LocalStoreRoots, recorded.HostPath)
	}
	sets, err := imagevector.Sets()
	if err != nil {
		return config, err
	}
	config.Defaults = state.Defaults{ImageSets: sets}
	if o.State.Accepted != nil {
		config.Defaults, config.EtcdVersion = o.State.Accepted.Defaults, o.State.Accepted.EtcdVersion
	}

	return config, nil
}
