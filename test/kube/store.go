// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"net"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

// store is the only backup store of the cluster. All stores in a spec refer to it.
type store struct {
	history.Store

	// refusesDeltas is true while sidecars take no delta snapshots.
	refusesDeltas bool
}

// SetStoreReachable sets whether sidecars and Jobs can use the backup store. The default is true. False simulates
// expired credentials.
func (k *Cluster) SetStoreReachable(reachable bool) { k.store.Down = !reachable }

// RefuseDeltaSnapshots sets whether sidecars refuse to take delta snapshots. The default is false.
func (k *Cluster) RefuseDeltaSnapshots(refuse bool) { k.store.refusesDeltas = refuse }

// EmptyStore removes all snapshots from the backup store.
func (k *Cluster) EmptyStore() { k.store.Empty() }

// RollStoreBack removes all writes after a revision from the backup store.
func (k *Cluster) RollStoreBack(revision int64) { k.store.RollBackTo(revision) }

// data is the newest data of the cluster.
func (k *Cluster) data() history.Position { return k.history.At(k.etcd.Revision()) }

// restorable returns true if a member can be restored from the store.
func (s store) restorable() bool {
	_, err := s.Newest()

	return err == nil
}

// latest returns the newest full snapshot and the newest delta snapshot after it. Nil: there is none.
func (s store) latest() (full, delta *sidecar.Snapshot) {
	s.Down = false
	newestFull, err := s.NewestFull()
	if err != nil {
		return nil, nil
	}
	full = sidecarSnapshot(newestFull)
	if newest, err := s.Newest(); err == nil && newest.Delta {
		delta = sidecarSnapshot(newest)
	}

	return full, delta
}

// sidecarSnapshot is a snapshot as the sidecar reports it.
func sidecarSnapshot(snapshot history.Snapshot) *sidecar.Snapshot {
	kind := "Full"
	if snapshot.Delta {
		kind = "Incr"
	}

	return &sidecar.Snapshot{Name: snapshot.Name(), Kind: kind, StartRevision: snapshot.Start, LastRevision: snapshot.Position.Revision, CreatedAt: snapshot.At}
}

// takeSnapshot stores a full snapshot of the cluster.
func (k *Cluster) takeSnapshot() error {
	switch {
	case k.store.Down:
		return fmt.Errorf("%w: the store is unreachable", sidecar.ErrRefused)
	case k.etcd.Leader() == 0:
		return fmt.Errorf("%w: there is no leader", sidecar.ErrRefused)
	}
	if etcd := k.EtcdObject(); k.etcd.RejectsWrites() && !k.store.refusesDeltas && (etcd == nil || helper.TakesDeltaSnapshots(etcd)) {
		k.reportViolation("a full snapshot is taken while etcd rejects writes, which a restored cluster would do too")
	}
	_, err := k.store.Add(k.data(), k.now(), false)

	return err
}

// takeFirstSnapshot simulates the sidecar of the leader, which stores the first full snapshot.
func (k *Cluster) takeFirstSnapshot() {
	for _, member := range k.etcd.Members() {
		if pod := getOrNil[*corev1.Pod](k, member.Name); k.store.IsEmpty() && member.ID == k.etcd.Leader() && k.hasMember(pod, &member) && usesStore(pod) {
			_ = k.takeSnapshot() // the next tick retries
		}
	}
}

// shouldRestore returns true if the sidecar in the pod restores from the store. The conditions are an empty volume, cluster size 1, and
// a cluster without a quorum. A sidecar whose lease contains a member ID does not restore. It waits for the cluster of that member.
func (k *Cluster) shouldRestore(pod *corev1.Pod, volume string) bool {
	lease := getOrNil[*coordinationv1.Lease](k, pod.Name)
	return len(k.etcd.Members()) > 0 && k.etcd.Leader() == 0 && k.memberIDs[volume] == 0 && k.startSizes[pod.UID] == 1 && usesStore(pod) &&
		k.store.restorable() && lease != nil && ptr.Deref(lease.Spec.HolderIdentity, "") == ""
}

// restore replaces the cluster with a single-member cluster at the revision of the newest full snapshot.
func (k *Cluster) restore(pod *corev1.Pod, volume string) {
	for _, claim := range listOf[*corev1.PersistentVolumeClaim](k) {
		if k.memberIDs[claim.Spec.VolumeName] != 0 {
			k.reportViolation("member %s is restored while claim %s contains data of the replaced cluster", pod.Name, claim.Name)
		}
	}
	newest, err := k.store.Newest()
	if err != nil {
		panic(err) // see shouldRestore
	}
	k.etcd, k.history = fake.NewCluster(k.etcd.ID+1), newest.Position.Restored()
	k.join(pod, volume, false)
	k.etcd.SetRevision(newest.Position.Revision)
}

// checkStop checks that the store contains every revision before a pod of a healthy cluster is stopped.
func (k *Cluster) checkStop(pod *corev1.Pod) {
	etcd := k.EtcdObject()
	if etcd == nil || etcd.DeletionTimestamp != nil || metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation) {
		return
	}
	if usesStore(pod) && k.etcd.Leader() != 0 {
		k.checkStored("pod " + pod.Name + " is stopped")
	}
}

// checkStored checks that the newest full snapshot and the delta snapshots after it contain every revision.
func (k *Cluster) checkStored(what string) {
	if data := k.data(); !k.store.Contains(data) {
		k.reportViolationOnce("%s at revision %d, which the store does not contain", what, data.Revision)
	}
}

// Sidecars returns clients of the sidecars that call onWrite before and after each snapshot. If onWrite is nil, they call nothing.
func (k *Cluster) Sidecars(onWrite func(Write)) sidecar.Connector {
	return sidecarConnector{connector{cluster: k, onWrite: onWrite}}
}

type sidecarConnector struct{ connector connector }

// Connect implements sidecar.Connector.
func (s sidecarConnector) Connect(target sidecar.Target) (sidecar.Client, error) {
	host, _, err := net.SplitHostPort(target.Address)
	return sidecarClient{connector: s.connector, ip: host}, err
}

// sidecarClient is a client of the sidecar in the pod with the IP.
type sidecarClient struct {
	sidecar.Client // nil: unsupported methods panic

	connector connector
	ip        string
}

// request calls respond if the sidecar runs. Otherwise it returns ErrUnreachable.
func (c sidecarClient) request(respond func(*Cluster) error) error {
	k := c.connector.cluster
	if !slices.ContainsFunc(listOf[*corev1.Pod](k), func(pod *corev1.Pod) bool { return pod.Status.PodIP == c.ip && isRunning(pod) }) {
		return fmt.Errorf("%w: connection refused", sidecar.ErrUnreachable)
	}
	return respond(k)
}

// FullSnapshot implements sidecar.Client.
func (c sidecarClient) FullSnapshot(context.Context) (taken sidecar.Snapshot, err error) {
	err = c.connector.write("take a full snapshot", func() error {
		return c.request(func(k *Cluster) error {
			if err := k.takeSnapshot(); err != nil {
				return err
			}
			taken = *sidecarSnapshot(k.store.Last())
			return nil
		})
	})
	return taken, err
}

// DeltaSnapshot implements sidecar.Client.
func (c sidecarClient) DeltaSnapshot(context.Context) (taken *sidecar.Snapshot, err error) {
	err = c.connector.write("take a delta snapshot", func() error {
		return c.request(func(k *Cluster) error {
			if k.store.refusesDeltas || !k.store.restorable() {
				return fmt.Errorf("%w: the store is unreachable", sidecar.ErrRefused)
			}
			if data := k.data(); !k.store.Contains(data) {
				snapshot, err := k.store.Add(data, k.now(), true)
				if err != nil {
					return fmt.Errorf("%w: %w", sidecar.ErrRefused, err)
				}
				taken = sidecarSnapshot(snapshot)
			}
			return nil
		})
	})
	return taken, err
}

// LatestSnapshots implements sidecar.Client.
func (c sidecarClient) LatestSnapshots(context.Context) (latest sidecar.LatestSnapshots, err error) {
	err = c.request(func(k *Cluster) error {
		if k.store.Down {
			return fmt.Errorf("%w: the store is unreachable", sidecar.ErrRefused)
		}
		latest.Full, latest.LastDelta = k.store.latest()
		return nil
	})
	return latest, err
}
