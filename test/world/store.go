// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package world

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

// store is the backup store of the cluster. Each store that a spec names is this one.
type store struct {
	// full is the newest full snapshot, which is never changed in place. Nil: the store is empty.
	full *sidecar.Snapshot
	// unreachable is true while sidecars and Jobs cannot use the store.
	unreachable bool
}

// SetStoreReachable sets whether sidecars and Jobs can use the backup store, which is true in a new world. False is a store with expired
// credentials.
func (w *World) SetStoreReachable(reachable bool) { w.store.unreachable = !reachable }

// restorable is true when a member can be restored from the store.
func (s store) restorable() bool { return s.full != nil && !s.unreachable }

// takeSnapshot stores a full snapshot of the cluster.
func (w *World) takeSnapshot() error {
	switch {
	case w.store.unreachable:
		return fmt.Errorf("%w: the store cannot be reached", sidecar.ErrRefused)
	case w.cluster.Leader() == 0:
		return fmt.Errorf("%w: no member leads", sidecar.ErrRefused)
	}
	revision := w.cluster.Revision()
	w.store.full = &sidecar.Snapshot{
		Name: fmt.Sprintf("Full-00000000-%08d-%d.gz", revision, w.now().Unix()), Kind: "Full", LastRevision: revision, CreatedAt: w.now(),
	}
	return nil
}

// takeFirstSnapshot lets the sidecar of the leader store the first full snapshot.
func (w *World) takeFirstSnapshot() {
	for _, member := range w.cluster.Members() {
		if pod := one[*corev1.Pod](w, member.Name); w.store.full == nil && member.ID == w.cluster.Leader() && w.alive(pod, &member) && usesStore(pod) {
			_ = w.takeSnapshot() // it retries
		}
	}
}

// restores is true if the sidecar in the pod restores from the store: the volume is empty, the configured cluster size is 1, and the
// cluster has no quorum. A sidecar whose lease contains a member ID does not restore. It waits for the cluster of that member.
func (w *World) restores(pod *corev1.Pod, volume string) bool {
	lease := one[*coordinationv1.Lease](w, pod.Name)
	return len(w.cluster.Members()) > 0 && w.cluster.Leader() == 0 && w.data[volume] == 0 && w.sizes[pod.UID] == 1 && usesStore(pod) &&
		w.store.restorable() && lease != nil && ptr.Deref(lease.Spec.HolderIdentity, "") == ""
}

// restore replaces the cluster by a cluster with one member, at the revision of the newest full snapshot.
func (w *World) restore(pod *corev1.Pod, volume string) {
	for _, claim := range every[*corev1.PersistentVolumeClaim](w) {
		if w.data[claim.Spec.VolumeName] != 0 {
			w.violated("member %s is restored while claim %s holds data of the cluster that it replaces", pod.Name, claim.Name)
		}
	}
	w.cluster = fake.NewCluster(w.cluster.ID + 1)
	w.join(pod, volume, false)
	for w.cluster.Revision() < w.store.full.LastRevision {
		if err := w.cluster.Write(); err != nil {
			panic(err)
		}
	}
}

// checkStop checks that a pod of a healthy cluster is stopped only if the store holds every revision.
func (w *World) checkStop(pod *corev1.Pod) {
	etcd := w.EtcdObject()
	if etcd == nil || etcd.DeletionTimestamp != nil || metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation) {
		return
	}
	if usesStore(pod) && w.cluster.Leader() != 0 {
		w.checkStored("pod " + pod.Name + " is stopped")
	}
}

// checkStored checks that the newest full snapshot holds every revision.
func (w *World) checkStored(what string) {
	stored := int64(0)
	if w.store.full != nil {
		stored = w.store.full.LastRevision
	}
	if revision := w.cluster.Revision(); stored < revision {
		w.violatedOnce("%s at revision %d, and the newest full snapshot holds revision %d", what, revision, stored)
	}
}

// Sidecars connects to the sidecars of the members. onWrite is called around each snapshot; nil: it is not.
func (w *World) Sidecars(onWrite func(Write)) sidecar.Connector {
	return sidecarConnector{connector{world: w, onWrite: onWrite}}
}

type sidecarConnector struct{ connector connector }

// Connect implements sidecar.Connector.
func (s sidecarConnector) Connect(target sidecar.Target) (sidecar.Client, error) {
	host, _, err := net.SplitHostPort(target.Address)
	return sidecarClient{connector: s.connector, ip: host}, err
}

// sidecarClient is a client of the sidecar in the pod with an IP.
type sidecarClient struct {
	sidecar.Client // nil: other calls panic

	connector connector
	ip        string
}

// ask calls answer if the sidecar runs.
func (c sidecarClient) ask(answer func(*World) error) error {
	w := c.connector.world
	if !slices.ContainsFunc(every[*corev1.Pod](w), func(pod *corev1.Pod) bool { return pod.Status.PodIP == c.ip && runs(pod) }) {
		return fmt.Errorf("%w: connection refused", sidecar.ErrUnreachable)
	}
	return answer(w)
}

// FullSnapshot implements sidecar.Client.
func (c sidecarClient) FullSnapshot(context.Context) (taken sidecar.Snapshot, err error) {
	err = c.connector.write("take a full snapshot", func() error {
		return c.ask(func(w *World) error {
			if err := w.takeSnapshot(); err != nil {
				return err
			}
			taken = *w.store.full
			return nil
		})
	})
	return taken, err
}

// LatestSnapshots implements sidecar.Client.
func (c sidecarClient) LatestSnapshots(context.Context) (latest sidecar.LatestSnapshots, err error) {
	err = c.ask(func(w *World) error {
		if w.store.unreachable {
			return fmt.Errorf("%w: the store cannot be reached", sidecar.ErrRefused)
		}
		latest.Full = w.store.full
		return nil
	})
	return latest, err
}
