// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"time"

	"context"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// configChecksumAnnotation is the key of the checksum of etcd's configuration on pods, the same as etcd-druid's.
const configChecksumAnnotation = "checksum/etcd-configmap"

// readPods reads the members' pods. Pods of Jobs carry the labels of the Etcd too, so that the name decides.
func (r *reader) readPods(ctx context.Context) {
	list := &corev1.PodList{}
	if err := r.Reader.List(ctx, list, r.shared()...); err != nil {
		r.failed(etcdcluster.SectionPods, err)

		return
	}
	r.pods = list.Items
	for i := range list.Items {
		if ordinal, is := ordinalOf(r.etcd, list.Items[i].Name); is {
			pod := podFor(&list.Items[i], ordinal)
			if r.now().Sub(pod.CreationTime) < warningsDelay {
				pod.Unschedulable = "" // most volumes are bound within seconds
			}
			r.observation.Pods = append(r.observation.Pods, pod)
		}
	}
	slices.SortFunc(r.observation.Pods, func(a, b etcdcluster.Pod) int { return a.Ordinal - b.Ordinal })
}

// acceptReplaced sets the latest revision for the pod that a surge has created, while the rendered pod template is the one of that pod. A webhook of gardener-resource-manager adds constraints to the template of a StatefulSet with two replicas. It
// removes them when the surge ends.
func (r *reader) acceptReplaced() {
	last, statefulSet := r.observation.State.Surge, r.observation.StatefulSet
	if last == nil || last.Phase != state.SurgeComplete || last.Template == "" || last.Template != statefulSet.Template {
		return
	}
	for i := range r.observation.Pods {
		if pod := &r.observation.Pods[i]; pod.UID == last.Pod {
			pod.RevisionHash = statefulSet.UpdateRevision
		}
	}
}

// ordinalOf is the ordinal of the member with the pod's name; false for the pod of anything else.
func ordinalOf(etcd *druidv1alpha1.Etcd, podName string) (int, bool) {
	digits, found := strings.CutPrefix(podName, helper.StatefulSetName(etcd)+"-")
	if !found {
		return 0, false
	}
	ordinal, err := strconv.Atoi(digits)
	if err != nil || ordinal < 0 || ordinal >= helper.MaxMembers || helper.PodName(etcd, ordinal) != podName {
		return 0, false
	}

	return ordinal, true
}

func podFor(object *corev1.Pod, ordinal int) etcdcluster.Pod {
	starting := etcdcluster.StartingPod(object)
	pod := etcdcluster.Pod{
		Name:                 object.Name,
		Ordinal:              ordinal,
		UID:                  object.UID,
		ResourceVersion:      object.ResourceVersion,
		RevisionHash:         object.Labels[appsv1.ControllerRevisionHashLabelKey],
		OwnerUID:             ownerUID(object),
		Phase:                string(object.Status.Phase),
		Deleting:             object.DeletionTimestamp != nil,
		Node:                 starting.Node,
		Unschedulable:        starting.Unschedulable,
		CreationTime:         object.CreationTimestamp.Time,
		Containers:           starting.Containers,
		Store:                etcdcluster.StoreFingerprint(object.Spec),
		StoreLocation:        etcdcluster.StoreLocationOf(object.Spec),
		StoreSecret:          etcdcluster.StoreSecretName(object.Spec),
		TLS:                  mountedTLSFor(object.Spec.Volumes),
		ClientTLS:            clientSecretsFor(mountedTLSFor(object.Spec.Volumes)),
		ClientPort:           portFor(object.Spec.Containers, "client"),
		PeerPort:             portFor(object.Spec.Containers, "server"),
		PeerTLS:              mountedTLSFor(object.Spec.Volumes).PeerCA != "",
		HasPreStopHook:       hasPreStopHook(object.Spec.Containers),
		SelectedFor:          object.Labels[druidv1alpha1.PodLabelAcceptsClients],
		Excluded:             object.Labels[druidv1alpha1.LabelAppNameKey] == druidv1alpha1.PodNameExcluded,
		Refreshed:            object.Annotations[druidv1alpha1.PodAnnotationRefreshed],
		ConfigChecksum:       object.Annotations[configChecksumAnnotation],
		CertificatesChecksum: object.Annotations[druidv1alpha1.PodAnnotationCertificates],
	}
	if object.DeletionTimestamp != nil {
		pod.DeletionTime = object.DeletionTimestamp.Time
	}
	pod.EvictionRequestedAt, _ = time.Parse(time.RFC3339, object.Annotations[druidv1alpha1.PodAnnotationEvictionRequested]) // zero if it is no time
	for _, ip := range object.Status.PodIPs {
		pod.IPs = append(pod.IPs, ip.IP)
	}
	for _, condition := range object.Status.Conditions {
		is := condition.Status == corev1.ConditionTrue
		switch condition.Type {
		case corev1.PodReady:
			pod.Ready, pod.ReadyChangedAt = is, condition.LastTransitionTime.Time
		case corev1.ContainersReady:
			pod.ContainersReady = is
		}
	}

	return pod
}

// clientSecretsFor reads from what is mounted how a member is reached: the spec may have changed since it was made.
func clientSecretsFor(mounted etcdcluster.MountedTLS) *etcdcluster.ClientSecrets {
	if mounted.ClientCA == "" {
		return nil
	}

	return &etcdcluster.ClientSecrets{CA: mounted.ClientCA, Client: mounted.Client}
}

// portFor knows a port of etcd by its name, which older versions of etcd-druid gave it too. 0: there is none.
func portFor(containers []corev1.Container, name string) int32 {
	for _, container := range containers {
		for _, port := range container.Ports {
			if container.Name == etcdcluster.ContainerEtcd && port.Name == name {
				return port.ContainerPort
			}
		}
	}

	return 0
}

// hasPreStopHook is true when the container of etcd has one.
func hasPreStopHook(containers []corev1.Container) bool {
	return slices.ContainsFunc(containers, func(container corev1.Container) bool {
		return container.Name == etcdcluster.ContainerEtcd && container.Lifecycle != nil && container.Lifecycle.PreStop != nil
	})
}

// mountedTLSFor knows the volumes by their names, also by those of older versions of etcd-druid.
func mountedTLSFor(volumes []corev1.Volume) etcdcluster.MountedTLS {
	return etcdcluster.MountedTLS{
		ClientCA:     secretOfVolume(volumes, "etcd-ca", "client-url-ca-etcd"),
		Server:       secretOfVolume(volumes, "etcd-server-tls", "client-url-etcd-server-tls"),
		Client:       secretOfVolume(volumes, "etcd-client-tls", "client-url-etcd-client-tls"),
		PeerCA:       secretOfVolume(volumes, "etcd-peer-ca", "peer-url-ca-etcd"),
		Peer:         secretOfVolume(volumes, "etcd-peer-server-tls", "peer-url-etcd-server-tls"),
		BackupCA:     secretOfVolume(volumes, "backup-restore-ca"),
		BackupServer: secretOfVolume(volumes, "backup-restore-server-tls"),
	}
}

// secretOfVolume is the name of the Secret of the first volume with one of the names; empty when there is none.
func secretOfVolume(volumes []corev1.Volume, names ...string) string {
	for _, volume := range volumes {
		if volume.Secret != nil && slices.Contains(names, volume.Name) {
			return volume.Secret.SecretName
		}
	}

	return ""
}
