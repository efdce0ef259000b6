// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// Names of the ports of the containers, and of the client Service. The API server warns if two containers of a pod have a port of the same name.
const (
	portClient = "client"
	portPeer   = "server"
	portBackup = "backuprestore"
)

// etcdContainer runs etcd-wrapper. It has neither a startup nor a liveness probe: etcd starts only after the sidecar has
// restored its data, which has no time limit. A failed probe would restart the restore.
func etcdContainer(v Values) corev1.Container {
	return corev1.Container{
		Name:            "etcd",
		Image:           v.Etcd.Image,
		ImagePullPolicy: v.Pod.ImagePullPolicy,
		Args:            etcdArgs(v),
		Env:             []corev1.EnvVar{{Name: "HOME", Value: podspec.Home(v.Pod.RunAsRoot)}},
		Ports: []corev1.ContainerPort{
			{Name: portPeer, ContainerPort: v.Ports.Peer, Protocol: corev1.ProtocolTCP},
			{Name: portClient, ContainerPort: v.Ports.Client, Protocol: corev1.ProtocolTCP},
		},
		ReadinessProbe:  readinessProbe(v),
		Lifecycle:       lifecycle(v),
		Resources:       v.Etcd.Resources,
		SecurityContext: podspec.ContainerSecurityContext(v.Pod.RunAsRoot),
		VolumeMounts:    etcdMounts(v),
	}
}

// drainSeconds is the time for which etcd continues after its pod starts to terminate, until all nodes have stopped sending
// new connections.
const drainSeconds = 3

// lifecycle delays the termination, so that clients of the Service reach another member at their first attempt after a closed
// connection. A client that is refused waits one second before it retries. A single member needs no delay.
func lifecycle(v Values) *corev1.Lifecycle {
	if len(v.PodMembers) < 2 || !v.Components.Network {
		return nil
	}

	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drainSeconds}}}
}

// readinessProbe calls etcd-wrapper. It uses TLS if and only if etcd does for its clients.
func readinessProbe(v Values) *corev1.Probe {
	scheme := corev1.URISchemeHTTP
	if v.ClientTLS != nil {
		scheme = corev1.URISchemeHTTPS
	}

	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/readyz", Port: intstr.FromInt32(v.Ports.Wrapper), Scheme: scheme,
		}},
		// Members join one after the other, each through the Service with the ready members. The delay is time in which the
		// pod is missing there.
		InitialDelaySeconds: 3,
		PeriodSeconds:       2,
		FailureThreshold:    12,
	}
}

func etcdArgs(v Values) []string {
	args := []string{
		"start-etcd",
		fmt.Sprintf("--backup-restore-host-port=%s:%d", v.Names.LocalHost, v.Ports.Backup),
		"--etcd-server-name=" + v.Names.LocalHost,
		fmt.Sprintf("--backup-restore-tls-enabled=%t", v.BackupTLS != nil),
	}
	if v.BackupTLS != nil {
		args = append(args, "--backup-restore-ca-cert-bundle-path="+path.Join(pathBackupCA, v.BackupTLS.CADataKey))
	}
	if v.ClientTLS != nil {
		args = append(args,
			"--etcd-client-cert-path="+path.Join(pathClientClient, keyCertificate),
			"--etcd-client-key-path="+path.Join(pathClientClient, keyPrivateKey),
		)
	}

	return append(args,
		fmt.Sprintf("--etcd-client-port=%d", v.Ports.Client),
		fmt.Sprintf("--etcd-wrapper-port=%d", v.Ports.Wrapper),
	)
}

func etcdMounts(v Values) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{{Name: v.Claim.Name, MountPath: pathData}}
	if v.ClientTLS != nil {
		mounts = append(mounts,
			corev1.VolumeMount{Name: volumeClientCA, MountPath: pathClientCA},
			corev1.VolumeMount{Name: volumeClientServer, MountPath: pathClientServer},
			corev1.VolumeMount{Name: volumeClientClient, MountPath: pathClientClient},
		)
	}
	if v.PeerTLS != nil {
		mounts = append(mounts,
			corev1.VolumeMount{Name: volumePeerCA, MountPath: pathPeerCA},
			corev1.VolumeMount{Name: volumePeerServer, MountPath: pathPeerServer},
		)
	}
	if v.BackupTLS != nil {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeBackupCA, MountPath: pathBackupCA})
	}

	return append(mounts, corev1.VolumeMount{Name: volumeEtcdHome, MountPath: podspec.Home(v.Pod.RunAsRoot)})
}
