// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// zonesPeriod is how long the zones of nodes are cached. The operator does not watch nodes.
const zonesPeriod = 5 * time.Minute

// Fleet reads what the rollout of new defaults depends on, of all Etcds that the operator has rendered. It reads only from caches, except for the zones of
// nodes. It decodes a record again only after it has changed. It is safe for concurrent use.
type Fleet struct {
	*Observer

	lock    sync.Mutex
	records map[types.UID]fleetRecord
	zones   map[string]string
	zonesAt time.Time
}

// fleetRecord is what a record says of a rollout. The zero value: nothing was rendered.
type fleetRecord struct {
	resourceVersion string
	accepted        *state.Accepted
	update          *state.Rollout
	hasRun          bool
}

// Clusters returns the Etcds, without those that are being deleted.
func (f *Fleet) Clusters(ctx context.Context) ([]rollout.Cluster, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	etcds, resources, pods := &druidv1alpha1.EtcdList{}, &resourcesv1alpha1.ManagedResourceList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{etcds, resources, pods} {
		if err := f.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // nothing is changed
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	if err := f.readZones(ctx); err != nil {
		return nil, err
	}
	records, zones := f.recordsOf(resources.Items), f.zonesOf(pods.Items)
	var clusters []rollout.Cluster
	for i := range etcds.Items {
		etcd := &etcds.Items[i]
		record, found := records[client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}]
		if !found || record.accepted == nil || !record.hasRun || etcd.DeletionTimestamp != nil || !helper.ManagesPods(etcd) {
			continue
		}
		clusters = append(clusters, clusterFor(etcd, record, zones[client.ObjectKeyFromObject(etcd)]))
	}

	return clusters, nil
}

// clusterFor returns what a decision needs of an Etcd.
func clusterFor(etcd *druidv1alpha1.Etcd, record fleetRecord, zones []string) rollout.Cluster {
	spec := record.accepted.Spec
	if spec == nil {
		canonical, _ := helper.Canonical(etcd)
		spec = &canonical.Spec
	}
	c := rollout.Cluster{
		Key: client.ObjectKeyFromObject(etcd).String(), UID: etcd.UID, Zones: zones, Defaults: rollout.Fingerprint(*spec, *record.accepted), Members: int(etcd.Spec.Replicas),
		Healthy: true, Hibernated: helper.IsHibernated(etcd), Suspended: helper.IsSuspended(etcd),
	}
	if record.update != nil && record.update.To == c.Defaults {
		c.Update = record.update
	}
	for _, conditionType := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTypeAllMembersReady} {
		isTrue := false
		for _, condition := range etcd.Status.Conditions {
			if condition.Type == conditionType {
				isTrue = condition.Status == druidv1alpha1.ConditionTrue
				c.HealthChangedAt = etcdcluster.Later(c.HealthChangedAt, condition.LastTransitionTime.Time)
			}
		}
		c.Healthy = c.Healthy && isTrue
	}

	return c
}

// recordsOf decodes the records that have changed since the last call. A record that cannot be read says nothing.
func (f *Fleet) recordsOf(resources []resourcesv1alpha1.ManagedResource) map[client.ObjectKey]fleetRecord {
	known, byKey := map[types.UID]fleetRecord{}, map[client.ObjectKey]fleetRecord{}
	for i := range resources {
		resource := &resources[i]
		if _, isOfEtcd := helper.EtcdNameOfManagedResource(resource.Name); !isOfEtcd {
			continue
		}
		record, found := f.records[resource.UID]
		if !found || record.resourceVersion != resource.ResourceVersion {
			record = fleetRecord{resourceVersion: resource.ResourceVersion}
			if recorded, err := state.Decode(resource.Annotations); err == nil {
				record.accepted, record.update, record.hasRun = recorded.Accepted, recorded.Rollout, recorded.Size > 0
			}
		}
		known[resource.UID], byKey[client.ObjectKeyFromObject(resource)] = record, record
	}
	f.records = known

	return byKey
}

// readZones reads the zones of all nodes. Without the permission to list nodes, as with watchNamespaces, they are not known.
func (f *Fleet) readZones(ctx context.Context) error {
	if f.zones != nil && f.now().Sub(f.zonesAt) < zonesPeriod {
		return nil
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := f.APIReader.List(ctx, nodes); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("listing nodes: %w", err)
	}
	zones := map[string]string{}
	for i := range nodes.Items {
		zones[nodes.Items[i].Name] = nodes.Items[i].Labels[corev1.LabelTopologyZone]
	}
	f.zones, f.zonesAt = zones, f.now()

	return nil
}

// zonesOf returns the zones of the pods of each Etcd, sorted.
func (f *Fleet) zonesOf(pods []corev1.Pod) map[client.ObjectKey][]string {
	sets := map[client.ObjectKey]map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		zone := f.zones[pod.Spec.NodeName]
		if zone == "" || pod.Labels[druidv1alpha1.LabelComponentKey] != druidv1alpha1.ComponentNameStatefulSet {
			continue
		}
		key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[druidv1alpha1.LabelPartOfKey]}
		if sets[key] == nil {
			sets[key] = map[string]bool{}
		}
		sets[key][zone] = true
	}
	zones := map[client.ObjectKey][]string{}
	for key, set := range sets {
		zones[key] = slices.Sorted(maps.Keys(set))
	}

	return zones
}
