// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// Rendered is the rendering of a target under a plan.
type Rendered struct {
	// Rendering is how the StatefulSet shows it.
	Rendering etcdcluster.Rendering
	// Plan is the plan that was rendered.
	Plan plan.Plan
	// Values are what the objects were rendered from.
	Values componentetcd.Values
	// Objects are the content of the ManagedResource.
	Objects []client.Object
	// StatefulSet is one of Objects.
	StatefulSet *appsv1.StatefulSet
}

// Render renders a target under a plan: the same target and plan give the same objects.
func Render(t target.Target, p plan.Plan, o etcdcluster.Observation) (Rendered, error) {
	defaults := t.Accepted.Defaults
	defaults.NetworkPolicies = t.NetworkPolicies
	values, err := componentetcd.ValuesFor(componentetcd.Input{
		Etcd:                t.Etcd,
		Replicas:            p.Replicas,
		ClusterSize:         p.ClusterSize,
		Remaining:           p.Remaining(),
		Existing:            etcdcluster.ExistingCluster(t.Etcd, o.State),
		Withdrawn:           p.WithdrawnMember(),
		ServiceMember:       p.ServiceMember(),
		ExcludesPods:        p.ExcludesPods,
		PodSize:             p.PodSize,
		RecordsTemplate:     helper.UsesSurge(t.Etcd) || p.Surge != nil,
		Defaults:            defaults,
		EtcdVersion:         p.EtcdVersion,
		Store:               t.Store,
		CADataKeys:          t.Accepted.CADataKeys,
		InitialClusterToken: o.State.InitialClusterToken,

		CertificatesChecksum: t.RenewedCertificates(),
	})
	if err != nil {
		return Rendered{}, plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, err)
	}
	objects, err := componentetcd.Objects(values)
	if err != nil {
		return Rendered{}, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, fmt.Errorf("rendering: %w", err))
	}
	for _, object := range objects {
		if statefulSet, is := object.(*appsv1.StatefulSet); is {
			return Rendered{
				Rendering: etcdcluster.RenderingFor(statefulSet), Values: values, Objects: objects, StatefulSet: statefulSet,
			}, nil
		}
	}

	return Rendered{}, plan.Failed(druidv1alpha1.ErrorCodeSyncStatefulSet, errors.New("rendering: there is no StatefulSet among the objects"))
}
