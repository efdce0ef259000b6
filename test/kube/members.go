// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// promotion is the number of seconds until a sidecar promotes its learner. The operator may be faster.
const promotion = 15

// heartbeat is how often leases are renewed.
const heartbeat = 10 * time.Second

// runs is true when the containers of a pod run.
func runs(pod *corev1.Pod) bool {
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

// alive is true when the member runs in the pod, on data of its own.
func (k *Cluster) alive(pod *corev1.Pod, member *etcdcluster.ListedMember) bool {
	if member == nil || !runs(pod) {
		return false
	}
	claim := k.claimOf(pod)
	return claim != nil && k.data[claim.Spec.VolumeName] == member.ID
}

// listed is the member of a pod; nil when the cluster does not list it.
func (k *Cluster) listed(podName string) *etcdcluster.ListedMember {
	for _, member := range k.etcd.Members() {
		if member.Name == podName {
			return &member
		}
	}
	return nil
}

// connect lets members be reached where their pods run, and nowhere else.
func (k *Cluster) connect() {
	for _, member := range k.etcd.Members() {
		pod := one[*corev1.Pod](k, member.Name)
		if !k.alive(pod, &member) {
			k.etcd.Stop(member.ID)
			continue
		}
		k.etcd.Move(member.ID, clientAddress(pod))
		k.etcd.Start(member.ID)
	}
}

// sidecars let members form, join and rejoin the cluster, and promote learners that have caught up.
func (k *Cluster) sidecars() bool {
	happened := false
	for _, pod := range every[*corev1.Pod](k) {
		claim := k.claimOf(pod)
		switch {
		case !runs(pod) || claim == nil || claim.Spec.VolumeName == "":
		case k.restores(pod, claim.Spec.VolumeName):
			k.restore(pod, claim.Spec.VolumeName)
			happened = true
		default:
			happened = k.sidecar(pod, claim) || happened
		}
	}
	k.takeFirstSnapshot()
	return happened
}

func (k *Cluster) sidecar(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	member, volume, urls := k.listed(pod.Name), claim.Spec.VolumeName, peerURL(pod)
	switch {
	case k.isOfEtcdDruid(pod) && member == nil:
		k.join(pod, volume, false) // all at once
	case len(k.etcd.Members()) == 0:
		if size := k.initialSize(pod); size != 1 {
			k.reportViolation("member %s starts from nothing in a cluster of %d", pod.Name, size)
		}
		k.join(pod, volume, false)
	case k.etcd.Leader() == 0:
		return false
	case member != nil && k.data[volume] != member.ID:
		k.etcd.RemoveMember(member.ID) // it lost its data
	case member == nil:
		for _, other := range k.etcd.Members() {
			if other.Learner {
				return false
			}
		}
		k.join(pod, volume, true)
	case member.Learner && k.caught[member.ID] < promotion:
		k.caught[member.ID]++
	case member.Learner:
		k.etcd.SetLearner(member.ID, false)
	case member.PeerURLs[0] != urls && !isReady(pod): // when it starts
		k.etcd.SetPeerURLs(member.ID, urls)
	default:
		return false
	}
	return true
}

// isOfEtcdDruid is true for a pod of a StatefulSet that the operator has not rendered.
func (k *Cluster) isOfEtcdDruid(pod *corev1.Pod) bool {
	statefulSet := one[*appsv1.StatefulSet](k, pod.Name[:strings.LastIndex(pod.Name, "-")])
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
	k.data[volume] = id
	k.checkSizes()
}

// checkSizes checks that no sidecar that was started with size 1 and a store runs next to another member. Such a sidecar restores a
// second cluster from the store if the database is older than the store.
func (k *Cluster) checkSizes() {
	if len(k.etcd.Members()) < 2 {
		return
	}
	for _, pod := range every[*corev1.Pod](k) {
		if k.sizes[pod.UID] == 1 && usesStore(pod) && runs(pod) {
			k.reportViolationOnce("pod %s was started with size 1, and runs in a multi-member cluster", pod.Name)
		}
	}
}

// UsesStore is true for a pod whose sidecar has a store.
func usesStore(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--storage-provider=") })
	})
}

// initialSize is the number of members in etcd's configuration.
func (k *Cluster) initialSize(pod *corev1.Pod) int {
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		configMap := one[*corev1.ConfigMap](k, volume.ConfigMap.Name)
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

// clientAddress is where the member of a pod serves clients.
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
	happened := false
	for _, pod := range every[*corev1.Pod](k) {
		member := k.listed(pod.Name)
		ready := k.alive(pod, member) && !member.Learner && k.etcd.Leader() != 0
		if pod.Status.PodIP == "" || hasReadyCondition(pod) && isReady(pod) == ready {
			continue
		}
		happened = change(k, pod, func(pod *corev1.Pod) {
			setCondition(k, pod, corev1.ContainersReady, ready, "")
			setCondition(k, pod, corev1.PodReady, ready, "")
		}) || happened
	}
	return happened
}

// renewLeases is what the sidecars write of members and snapshots.
func (k *Cluster) renewLeases() {
	for _, lease := range every[*coordinationv1.Lease](k) {
		holder := ""
		var tls *bool
		if strings.HasSuffix(lease.Name, "-snap") && k.etcd.Leader() != 0 {
			holder = "1"
		} else if member, pod := k.listed(lease.Name), one[*corev1.Pod](k, lease.Name); k.alive(pod, member) && k.etcd.Leader() != 0 {
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

// Connector returns the way to the members. onWrite is called around what changes the cluster; nil: it is not.
func (k *Cluster) Connector(onWrite func(Write)) etcdclient.Connector {
	return connector{cluster: k, onWrite: onWrite}
}

type connector struct {
	cluster *Cluster
	onWrite func(Write)
}

func (c connector) Connect(ctx context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	client, err := c.cluster.etcd.Connect(ctx, target)
	return member{Client: client, connector: c}, err
}

func (connector) Disconnect(etcdclient.Target) {}

type member struct {
	etcdclient.Client
	connector
}

// MoveLeader implements etcdclient.Client.
func (m member) MoveLeader(ctx context.Context, to uint64) error {
	return m.write(fmt.Sprintf("move the leader to %x", to), func() error { return m.Client.MoveLeader(ctx, to) })
}

// UpdatePeerURLs implements etcdclient.Client.
func (m member) UpdatePeerURLs(ctx context.Context, id uint64, urls []string) error {
	return m.write(fmt.Sprintf("update the peer URLs of %x to %v", id, urls), func() error { return m.Client.UpdatePeerURLs(ctx, id, urls) })
}

// Promote implements etcdclient.Client.
func (m member) Promote(ctx context.Context, learner uint64) error {
	return m.write(fmt.Sprintf("promote %x", learner), func() error { return m.Client.Promote(ctx, learner) })
}

func (c connector) write(what string, do func() error) error {
	if c.onWrite == nil {
		return do()
	}
	c.onWrite(Write{What: what})
	err := do()
	c.onWrite(Write{What: what, Done: true, Err: err})
	return err
}

func (k *Cluster) reportViolation(format string, args ...any) {
	k.Violations = append(k.Violations, k.now().Format("15:04:05")+" "+fmt.Sprintf(format, args...))
}

// reportViolationOnce reports a violation that persists only when it is first observed.
func (k *Cluster) reportViolationOnce(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(k.Violations, func(known string) bool { return strings.HasSuffix(known, message) }) {
		k.reportViolation("%s", message)
	}
}

// checkDelete holds what the operator is about to delete against what it promises.
func (k *Cluster) checkDelete(kind string, key client.ObjectKey, options client.DeleteOptions) {
	etcd := k.EtcdObject()
	if etcd == nil {
		return
	}
	if etcd.DeletionTimestamp != nil {
		if kind == "PersistentVolumeClaim" && etcd.Spec.Backup.Store != nil {
			k.checkStored("claim " + key.Name + " is deleted")
		}
		return
	}
	switch kind {
	case "Lease":
		k.checkLease(key.Name)
	case "Pod":
		k.checkPod(key.Name, options)
	case "PersistentVolumeClaim":
		k.checkClaim(key.Name)
	}
}

// voters returns the number of voting members, and how many of them run.
func (k *Cluster) voters() (alive, all int) {
	for _, member := range k.etcd.Members() {
		if member.Learner {
			continue
		}
		all++
		if k.alive(one[*corev1.Pod](k, member.Name), &member) {
			alive++
		}
	}
	return alive, all
}

func (k *Cluster) checkPod(name string, options client.DeleteOptions) {
	pod, member := one[*corev1.Pod](k, name), k.listed(name)
	if pod == nil || member == nil || options.Preconditions == nil || ptr.Deref(options.Preconditions.UID, "") != pod.UID {
		return // it is refused
	}
	alive, all := k.voters()
	if all > 1 && !member.Learner && k.alive(pod, member) && etcdcluster.IsQuorate(alive, all) && alive < all {
		k.reportViolation("pod %s is taken while %d of %d serve", name, alive, all)
	}
}

func (k *Cluster) checkClaim(name string) {
	claim := one[*corev1.PersistentVolumeClaim](k, name)
	if claim == nil {
		return
	}
	volume := k.volume(claim.Spec.VolumeName)
	isLost := volume == nil || !k.hasNode(nodeOf(volume))
	alive, all := k.voters()
	isReplaced, isRestored := isLost && etcdcluster.IsQuorate(alive, all), alive == 0 && k.isRestoreVerified()
	if !isReplaced && !isRestored {
		k.reportViolation("claim %s is deleted with %d of %d serving, its volume lost: %t", name, alive, all, isLost)
	}
}

// checkLease checks that the lease of a member is not deleted while the claim of the member holds data.
func (k *Cluster) checkLease(name string) {
	for _, claim := range every[*corev1.PersistentVolumeClaim](k) {
		if id := k.data[claim.Spec.VolumeName]; id != 0 && strings.HasSuffix(claim.Name, "-"+name) {
			k.reportViolation("lease %s is deleted while claim %s holds the data of member %x", name, claim.Name, id)
		}
	}
}
