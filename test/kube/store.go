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

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// store is the only backup store of the cluster. All stores in a spec refer to it.
type store struct {
	// full is the newest full snapshot. It is never modified in place. Nil: the store is empty.
	full *sidecar.Snapshot
	// unreachable is true while sidecars and Jobs cannot use the store.
	unreachable bool
}

// SetStoreReachable sets whether sidecars and Jobs can use the backup store. The default is true. False simulates
// expired credentials.
func (k *Cluster) SetStoreReachable(reachable bool) { k.store.unreachable = !reachable }

// restorable returns true if a member can be restored from the store.
func (s store) restorable() bool { return s.full != nil && !s.unreachable }

// takeSnapshot stores a full snapshot of the cluster.
func (k *Cluster) takeSnapshot() error {
	switch {
	case k.store.unreachable:
		return fmt.Errorf("%w: the store is unreachable", sidecar.ErrRefused)
	case k.etcd.Leader() == 0:
		return fmt.Errorf("%w: there is no leader", sidecar.ErrRefused)
	}
	revision := k.etcd.Revision()
	k.store.full = &sidecar.Snapshot{
		Name: fmt.Sprintf("Full-00000000-%08d-%d.gz", revision, k.now().Unix()), Kind: "Full", LastRevision: revision, CreatedAt: k.now(),
	}
	return nil
}

// takeFirstSnapshot simulates the sidecar of the leader, which stores the first full snapshot.
func (k *Cluster) takeFirstSnapshot() {
	for _, member := range k.etcd.Members() {
		if pod := getOrNil[*corev1.Pod](k, member.Name); k.store.full == nil && member.ID == k.etcd.Leader() && k.hasMember(pod, &member) && usesStore(pod) {
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
	k.etcd = fake.NewCluster(k.etcd.ID + 1)
	k.join(pod, volume, false)
	for k.etcd.Revision() < k.store.full.LastRevision {
		if err := k.etcd.Write(); err != nil {
			panic(err)
		}
	}
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

// checkStored checks that the newest full snapshot contains every revision.
func (k *Cluster) checkStored(what string) {
	stored := int64(0)
	if k.store.full != nil {
		stored = k.store.full.LastRevision
	}
	if revision := k.etcd.Revision(); stored < revision {
		k.reportViolationOnce("%s at revision %d, and the newest full snapshot has revision %d", what, revision, stored)
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
			taken = *k.store.full
			return nil
		})
	})
	return taken, err
}

// LatestSnapshots implements sidecar.Client.
func (c sidecarClient) LatestSnapshots(context.Context) (latest sidecar.LatestSnapshots, err error) {
	err = c.request(func(k *Cluster) error {
		if k.store.unreachable {
			return fmt.Errorf("%w: the store is unreachable", sidecar.ErrRefused)
		}
		latest.Full = k.store.full
		return nil
	})
	return latest, err
}
