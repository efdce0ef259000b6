// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/forecast"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// renderer renders as the operator does, without its writes.
type renderer struct {
	etcd     *druidv1alpha1.Etcd
	defaults state.Defaults
	store    *backupstore.Store
}

// rendererFor prepares a canonical spec for rendering: what the operator would have issued keeps its name where the cluster mounts
// it already, and gets a stand-in where it does not exist yet.
func rendererFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, defaults state.Defaults, now time.Time) (*renderer, error) {
	running := secrets.RunningModes(etcd.Name, o.State.TLS, o.StatefulSet.Exists, o.StatefulSet.TLS.ClientCA, o.StatefulSet.TLS.PeerCA)
	modes, errs := secrets.Decide(etcd, running, peers.PinnedTLS(etcd, o, now))
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	mounted, configs := o.StatefulSet.TLS, secrets.ConfigNamesFor(etcd.Name)
	names := secrets.Names(configs) // for what is not issued yet
	if running.Client == state.ModeManaged {
		names.ClientCA, names.Server, names.Client = mounted.ClientCA, mounted.Server, mounted.Client
	}
	if running.Peer == state.ModeManaged {
		names.PeerCA, names.Peer = mounted.PeerCA, mounted.Peer
	}
	r := &renderer{etcd: secrets.Effective(peers.WithPinnedPort(etcd, o, now), modes, names), defaults: defaults}
	if etcd.Spec.Backup.Store == nil {
		return r, nil
	}
	if o.State.StoreError != "" {
		return nil, fmt.Errorf("the store that ManagedResource %s records: %s", o.ManagedResource.Name, o.State.StoreError)
	}
	resolution := backupstore.Resolve(backupstore.ResolveInput{Etcd: etcd, Gardener: o.Gardener, Pinned: o.State.Store})
	if resolution.Store == nil {
		return nil, errors.New(resolution.Message)
	}
	r.store = resolution.Store

	return r, nil
}

// statefulSet renders a plan.
func (r *renderer) statefulSet(decision plan.Plan) (*appsv1.StatefulSet, error) {
	values, err := componentetcd.ValuesFor(componentetcd.Input{
		Etcd: r.etcd, Replicas: decision.Replicas, ClusterSize: decision.ClusterSize, Defaults: r.defaults, Store: r.store,
	})
	if err != nil {
		return nil, err
	}
	objects, err := componentetcd.Objects(values)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if statefulSet, is := object.(*appsv1.StatefulSet); is {
			return statefulSet, nil
		}
	}

	return nil, errors.New("nothing runs pods in this rendering: somebody else does")
}

// render renders a plan for a forecast.
func (r *renderer) render(decision plan.Plan) (forecast.Rendered, error) {
	statefulSet, err := r.statefulSet(decision)
	if err != nil {
		return forecast.Rendered{}, err
	}
	template, err := json.Marshal(statefulSet.Spec.Template)
	if err != nil {
		return forecast.Rendered{}, err
	}
	sum := sha256.Sum256(template)

	return forecast.Rendered{Rendering: etcdcluster.RenderingFor(statefulSet), Template: hex.EncodeToString(sum[:])}, nil
}
