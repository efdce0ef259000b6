// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// promotion is the number of ticks after which a sidecar promotes its learner. The operator may promote it earlier.
const promotion = 15

// heartbeat is the interval at which the sidecars renew leases.
const heartbeat = 10 * time.Second

// isRunning returns true if all containers of the pod run.
func isRunning(pod *corev1.Pod) bool {
	if pod == nil || pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running == nil {
			return false
		}
	}
	return true
}

// hasMember returns true if the member runs in the pod with its own data.
func (k *Cluster) hasMember(pod *corev1.Pod, member *etcdcluster.ListedMember) bool {
	if member == nil || !isRunning(pod) {
		return false
	}
	claim := k.claimOf(pod)
	return claim != nil && k.memberIDs[claim.Spec.VolumeName] == member.ID
}

// memberOf returns the member with the name of the pod, or nil if the member list does not contain it.
func (k *Cluster) memberOf(podName string) *etcdcluster.ListedMember {
	for _, member := range k.etcd.Members() {
		if member.Name == podName {
			return &member
		}
	}
	return nil
}

// AddExternalMember adds a running voting member that has no pod, as in a cluster that the members of the Etcd join. Address is its client
// address, host:port.
func (k *Cluster) AddExternalMember(name, address string) {
	k.counter++
	id := 0xe000 + k.counter
	k.external = maps.Clone(k.external)
	if k.external == nil {
		k.external = map[uint64]bool{}
	}
	k.external[id] = true
	k.etcd.AddMember(id, name, address)
}

// connect makes each member reachable at the address of its pod. A member without a running pod is unreachable, and so is one that a quorum rejects.
func (k *Cluster) connect() {
	for _, member := range k.etcd.Members() {
		if k.external[member.ID] {
			continue
		}
		pod := getOrNil[*corev1.Pod](k, member.Name)
		if !k.hasMember(pod, &member) || !k.reachesQuorum(pod) {
			k.etcd.Stop(member.ID)
			continue
		}
		k.etcd.Move(member.ID, clientAddress(pod))
		k.etcd.SetVersion(member.ID, versionOf(pod))
		k.etcd.Start(member.ID)
	}
}

// versionOf returns the version of etcd in a pod, according to the tag of etcd-wrapper. Empty: the tag is none of etcd-wrapper.
func versionOf(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		if minor := etcdversion.OfWrapper(container.Image); minor != "" && container.Name == etcdcluster.ContainerEtcd {
			return minor + ".0"
		}
	}
	return ""
}

// sidecars simulates the sidecars: they bootstrap the cluster, add and replace members, and promote learners that have caught up.
func (k *Cluster) sidecars() bool {
	changed := false
	for _, pod := range listOf[*corev1.Pod](k) {
		claim := k.claimOf(pod)
		switch {
		case !isRunning(pod) || claim == nil || claim.Spec.VolumeName == "":
		case k.shouldRestore(pod, claim.Spec.VolumeName):
			k.restore(pod, claim.Spec.VolumeName)
			changed = true
		default:
			changed = k.sidecar(pod, claim) || changed
		}
	}
	k.takeFirstSnapshot()
	return changed
}

func (k *Cluster) sidecar(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	member, volume, urls := k.memberOf(pod.Name), claim.Spec.VolumeName, peerURL(pod)
	switch {
	case k.isManagedByEtcdDruid(pod) && member == nil:
		k.join(pod, volume, false) // etcd-druid bootstraps all members together
	case len(k.etcd.Members()) == 0:
		if size := k.initialSize(pod); size != 1 {
			k.reportViolation("member %s bootstraps a cluster, and its initial-cluster lists %d members", pod.Name, size)
		}
		k.join(pod, volume, false)
	case k.etcd.Leader() == 0:
		return false
	case member != nil && k.memberIDs[volume] != member.ID:
		k.etcd.RemoveMember(member.ID) // the member has lost its data
	case member == nil:
		return k.addLearner(pod, volume)
	case member.Learner && k.catchUpTicks[member.ID] < promotion:
		k.catchUpTicks[member.ID]++
	case member.Learner:
		k.etcd.SetLearner(member.ID, false)
	case member.PeerURLs[0] != urls && !isReady(pod): // while the member starts
		k.etcd.SetPeerURLs(member.ID, urls)
	default:
		return false
	}
	return true
}

// addLearner adds the member of a pod as a learner. etcd allows one learner at a time.
func (k *Cluster) addLearner(pod *corev1.Pod, volume string) bool {
	isLearner := func(member etcdcluster.ListedMember) bool { return member.Learner }
	if k.hasLeft(pod) || slices.ContainsFunc(k.etcd.Members(), isLearner) {
		return false
	}
	k.join(pod, volume, true)
	return true
}

// hasLeft returns true if the configuration in the pod has no advertised URLs of its member. The kubelet updates the configuration when the
// operator changes the annotation of the pod.
func (k *Cluster) hasLeft(pod *corev1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap == nil || pod.Annotations[druidv1alpha1.PodAnnotationRefreshed] == "" {
			continue
		}
		if configMap := getOrNil[*corev1.ConfigMap](k, volume.ConfigMap.Name); configMap != nil {
			_, advertised, _ := strings.Cut(configMap.Data["etcd.conf.yaml"], "initial-advertise-peer-urls:")
			return !strings.Contains(advertised, "  "+pod.Name+":")
		}
	}
	return false
}

// isManagedByEtcdDruid returns true for a pod of a StatefulSet that the operator has not rendered.
func (k *Cluster) isManagedByEtcdDruid(pod *corev1.Pod) bool {
	statefulSet := getOrNil[*appsv1.StatefulSet](k, pod.Name[:strings.LastIndex(pod.Name, "-")])
	return statefulSet != nil && statefulSet.Annotations[etcdcluster.RenderingAnnotation] == ""
}

func (k *Cluster) join(pod *corev1.Pod, volume string, learner bool) {
	k.counter++
	id := 0xa000 + k.counter
	if learner {
		k.etcd.AddLearner(id, pod.Name, clientAddress(pod))
	} else {
		k.etcd.AddMember(id, pod.Name, clientAddress(pod))
	}
	k.etcd.SetPeerURLs(id, peerURL(pod))
	k.memberIDs[volume] = id
	k.checkSizes()
}

// isReplacedBySurge is true for the first member of a surge. The operator deletes its pod as soon as its etcd stops.
func (k *Cluster) isReplacedBySurge(pod *corev1.Pod) bool {
	mr := getOrNil[*resourcesv1alpha1.ManagedResource](k, "druid-"+k.Etcd.Name)
	if mr == nil {
		return false
	}
	recorded, err := state.Decode(mr.Annotations)

	return err == nil && recorded.Surge.IsActive() && recorded.Surge.Pod == pod.UID
}

// checkSizes checks that no sidecar with a store that started with cluster size 1 runs in a multi-member cluster. If its database is
// older than the store, such a sidecar restores a second cluster from the store.
func (k *Cluster) checkSizes() {
	if len(k.etcd.Members()) < 2 {
		return
	}
	for _, pod := range listOf[*corev1.Pod](k) {
		if k.startSizes[pod.UID] == 1 && usesStore(pod) && isRunning(pod) && !k.isReplacedBySurge(pod) {
			k.reportViolationOnce("pod %s started with cluster size 1 and runs in a multi-member cluster", pod.Name)
		}
	}
}

// usesStore returns true if the sidecar of the pod has a store.
func usesStore(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--storage-provider=") })
	})
}

// initialSize returns the number of members in initial-cluster of the etcd configuration. It returns 0 if the ConfigMap is missing.
func (k *Cluster) initialSize(pod *corev1.Pod) int {
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		configMap := getOrNil[*corev1.ConfigMap](k, volume.ConfigMap.Name)
		if configMap == nil {
			return 0
		}
		for line := range strings.Lines(configMap.Data["etcd.conf.yaml"]) {
			if members, is := strings.CutPrefix(line, "initial-cluster:"); is {
				return len(strings.Split(members, ","))
			}
		}
	}
	return 0
}

func peerTLS(pod *corev1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "etcd-peer-ca" || volume.Name == "peer-url-ca-etcd" {
			return true
		}
	}
	return false
}

func peerURL(pod *corev1.Pod) string {
	scheme := "http"
	if peerTLS(pod) {
		scheme = "https"
	}
	name := pod.Name[:strings.LastIndex(pod.Name, "-")]
	return fmt.Sprintf("%s://%s.%s-peer.%s.svc:2380", scheme, pod.Name, name, pod.Namespace)
}

// clientAddress returns the client address of the member in the pod, host:port.
func clientAddress(pod *corev1.Pod) string {
	for _, port := range pod.Spec.Containers[0].Ports {
		if port.Name == "client" {
			return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))
		}
	}
	return net.JoinHostPort(pod.Status.PodIP, "2379")
}

// probes sets the readiness of the pods from the health of their members.
func (k *Cluster) probes() bool {
	changed := false
	for _, pod := range listOf[*corev1.Pod](k) {
		member := k.memberOf(pod.Name)
		ready := k.hasMember(pod, member) && !member.Learner && k.etcd.Leader() != 0 && k.reachesQuorum(pod)
		if pod.Status.PodIP == "" || hasReadyCondition(pod) && isReady(pod) == ready {
			continue
		}
		changed = change(k, pod, func(pod *corev1.Pod) {
			setCondition(k, pod, corev1.ContainersReady, ready, "")
			setCondition(k, pod, corev1.PodReady, ready, "")
		}) || changed
	}
	return changed
}

// renewLeases simulates the sidecars, which renew the leases of members and snapshots.
func (k *Cluster) renewLeases() {
	for _, lease := range listOf[*coordinationv1.Lease](k) {
		holder := ""
		var tls *bool
		if strings.HasSuffix(lease.Name, "-snap") && k.etcd.Leader() != 0 {
			holder = "1"
		} else if member, pod := k.memberOf(lease.Name), getOrNil[*corev1.Pod](k, lease.Name); k.hasMember(pod, member) && k.etcd.Leader() != 0 {
			holder, tls = fmt.Sprintf("%x:Member", member.ID), new(strings.HasPrefix(member.PeerURLs[0], "https"))
		}
		if holder == "" || ptr.Deref(lease.Spec.HolderIdentity, "") == holder && k.now().Sub(lease.Spec.RenewTime.Time) < heartbeat {
			continue
		}
		change(k, lease, func(lease *coordinationv1.Lease) {
			lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, new(metav1.NewMicroTime(k.now()))
			if tls != nil {
				metav1.SetMetaDataAnnotation(&lease.ObjectMeta, druidv1alpha1.MemberTLSEnabledAnnotation, fmt.Sprint(*tls))
			}
		})
	}
}
