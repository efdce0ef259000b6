// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// storeFlags are the flags of the sidecar with the location of snapshots.
var storeFlags = []string{providerFlag, prefixFlag, "--store-endpoint-override="}

const (
	// providerFlag and prefixFlag are the flags of the sidecar with the provider and the prefix of the store.
	providerFlag, prefixFlag = "--storage-provider=", "--store-prefix="
	// containerVariable is the environment variable of the sidecar with the container of the store.
	containerVariable = "STORAGE_CONTAINER"
	// credentialsVolume is the volume with the credentials of the store.
	credentialsVolume = "etcd-backup-secret" // #nosec G101 -- the name of a volume
	// localVolume is the volume with the folder of a Local store.
	localVolume = "local-backup"
)

// storeVolumes are the volumes through which the sidecar reaches its store.
var storeVolumes = map[string]bool{credentialsVolume: true, localVolume: true}

// storelessFingerprint is the StoreFingerprint of a pod whose sidecar has no store.
var storelessFingerprint = StoreFingerprint(corev1.PodSpec{Containers: []corev1.Container{{Name: ContainerBackupRestore}}})

// StoreFingerprint is a short hash over the settings of the store in a pod's spec: flags, container, credentials. Two pods
// with the same fingerprint depend on the same store. Empty: no sidecar.
func StoreFingerprint(pod corev1.PodSpec) string {
	hash := sha256.New()
	found := false
	for _, container := range pod.Containers {
		if container.Name != ContainerBackupRestore {
			continue
		}
		found = true
		for _, arg := range container.Args {
			for _, flag := range storeFlags {
				if strings.HasPrefix(arg, flag) {
					_, _ = fmt.Fprintln(hash, arg)
				}
			}
		}
		for _, env := range container.Env {
			if env.Name == containerVariable || strings.HasPrefix(env.Name, "ECS_") {
				_, _ = fmt.Fprintln(hash, env.Name, env.Value, env.ValueFrom)
			}
		}
	}
	if !found {
		return ""
	}
	for _, volume := range pod.Volumes {
		if storeVolumes[volume.Name] {
			_, _ = fmt.Fprintln(hash, volume.Name, volume.Secret.String(), volume.HostPath.String())
		}
	}

	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// StoreLocationOf is the location of the store in a pod's spec, in the form of StoreLocation without endpoint and account. Empty: the pod has no
// sidecar, or its sidecar has no store.
func StoreLocationOf(pod corev1.PodSpec) string {
	store := state.Store{}
	for _, container := range pod.Containers {
		if container.Name != ContainerBackupRestore {
			continue
		}
		for _, arg := range container.Args {
			if provider, is := strings.CutPrefix(arg, providerFlag); is {
				store.Provider = provider
			}
			if prefix, is := strings.CutPrefix(arg, prefixFlag); is {
				store.Prefix = prefix
			}
		}
		for _, env := range container.Env {
			if env.Name == containerVariable {
				store.Container = env.Value
			}
		}
	}
	if store.Provider == "" || store.Container == "" || store.Prefix == "" {
		return ""
	}
	// The kubelet makes one dollar sign of two before the sidecar reads them.
	store.Container, store.Prefix = strings.ReplaceAll(store.Container, "$$", "$"), strings.ReplaceAll(store.Prefix, "$$", "$")

	return store.String()
}

// StoreSecretName is the name of the Secret with the credentials of the store that a pod's spec mounts. Empty: none.
func StoreSecretName(pod corev1.PodSpec) string {
	for _, volume := range pod.Volumes {
		if volume.Name == credentialsVolume && volume.Secret != nil {
			return volume.Secret.SecretName
		}
	}

	return ""
}

// LocalStoreFolder is the folder of the node that a pod's spec mounts as Local store. Empty: none.
func LocalStoreFolder(pod corev1.PodSpec) string {
	for _, volume := range pod.Volumes {
		if volume.Name == localVolume && volume.HostPath != nil {
			return volume.HostPath.Path
		}
	}

	return ""
}

// MountsOtherStoreSecret is true when a pod mounts another Secret with the credentials of the store than the StatefulSet names. The
// kubelet updates the content of a mounted Secret, but it never mounts another one.
func (o Observation) MountsOtherStoreSecret() bool {
	return o.StatefulSet.Exists && slices.ContainsFunc(o.Pods, func(pod Pod) bool { return pod.StoreSecret != o.StatefulSet.StoreSecret })
}

// IsElsewhere is true for a Lease of snapshots that are in another store than the current one. The sidecar does not report that: it does
// not write a Lease with a higher revision than that of its own snapshots.
func (o Observation) IsElsewhere(lease Lease) bool {
	return IsInOtherStore(lease, o.StoreLocation)
}

// IsInOtherStore is false if one of the locations is unknown.
func IsInOtherStore(lease Lease, location string) bool {
	return lease.Store != "" && location != "" && !state.IsSameStore(lease.Store, location)
}

// AllUseStoreOf is true if there are pods, and all of them have the store of the StatefulSet: no member writes to another one.
func (o Observation) AllUseStoreOf(statefulSet StatefulSet) bool {
	for _, pod := range o.Pods {
		if pod.Store != statefulSet.Store {
			return false
		}
	}

	return len(o.Pods) > 0 && statefulSet.Exists && !statefulSet.Deleting
}

// LeaderStoreLocation is the store to which the sidecar of the leader writes, in the form of StoreLocation. While another store is rolled out,
// the pod of the leader may still use the former one, which the snapshot Leases name. Without a leader, all pods count. Empty: it is not known.
func (o Observation) LeaderStoreLocation() string {
	pods := o.Pods
	if leader := o.Leader(); leader != nil {
		pods = []Pod{*leader}
	}
	if len(pods) == 0 {
		pods = []Pod{{Store: o.StatefulSet.Store}}
	}
	for _, pod := range pods {
		if location := o.storeLocationOf(pod); location != o.StoreLocation {
			return location
		}
	}

	return o.StoreLocation
}

// storeLocationOf is LeaderStoreLocation for one pod. The spec of a pod names the container and the prefix. Only the Leases name the endpoint
// and the account.
func (o Observation) storeLocationOf(pod Pod) string {
	if pod.StoreLocation == "" {
		// The StatefulSet may still have the former store, like the pod.
		if other := o.storeOfLease(func(store string) bool { return !state.IsSameContainer(store, o.StoreLocation) }); o.StoreLocation != "" && other != "" {
			return other
		}
	} else if o.StoreLocation != "" && !state.IsSameContainer(pod.StoreLocation, o.StoreLocation) {
		return o.storeOfLease(func(store string) bool { return state.IsSameContainer(store, pod.StoreLocation) })
	}
	if !o.StatefulSet.Exists || pod.Store == o.StatefulSet.Store {
		return o.StoreLocation
	}
	if other := o.storeOfLease(func(store string) bool { return IsInOtherStore(Lease{Store: store}, o.StoreLocation) }); other != "" {
		return other
	}
	isVerified := o.State.Store == nil || !o.State.Store.AwaitsSnapshot()
	if isVerified && pod.StoreLocation != "" && o.DeltaSnapshotLease.Store != "" && o.FullSnapshotLease.Store != "" {
		return o.StoreLocation // only the credentials differ
	}

	return ""
}

// storeOfLease is the first store of a snapshot Lease that matches. Empty: none does.
func (o Observation) storeOfLease(matches func(string) bool) string {
	for _, lease := range []Lease{o.DeltaSnapshotLease, o.FullSnapshotLease} {
		if lease.Store != "" && matches(lease.Store) {
			return lease.Store
		}
	}

	return ""
}

// StoreCredentials is what is known about the Secret with the credentials of a store, without secret values.
type StoreCredentials struct {
	// SecretName is the Secret. Empty: the store has none, or it was not observed.
	SecretName string
	// Public are the values that identify the store, by their keys. Nil: the Secret does not exist or cannot be read.
	Public map[string]string
	// WhiteSpaceKey is a key that the sidecar uses, and whose value has white space at its start or end. Empty: there is none.
	WhiteSpaceKey string
}

// StoreUser is an Etcd, or an EtcdCopyBackupsTask, that writes to a store or will write to it.
type StoreUser struct {
	// Namespace and Name of the object.
	Namespace, Name string
	// UID of the object.
	UID types.UID
	// CreationTime is when it was created.
	CreationTime time.Time
	// Deleting is true while it is being deleted.
	Deleting bool
	// IsCopy is true for an EtcdCopyBackupsTask. The task has not ended.
	IsCopy bool
	// Started is true if the object may have written to the store. Of an Etcd: its ManagedResource or one of its snapshot Leases names it. Of an
	// EtcdCopyBackupsTask: its Job exists, or a pod of it has not ended.
	Started bool
	// Store is the location. Its VerifiedAt is set if a full snapshot of the Etcd exists there.
	Store state.Store
}
