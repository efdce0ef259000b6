// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"path/filepath"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

func (m Manager) etcdFlags() []string {
	client := fmt.Sprintf("http://127.0.0.1:%d", m.Layout.EtcdClientPort())
	peer := fmt.Sprintf("http://127.0.0.1:%d", m.Layout.EtcdPeerPort())

	return []string{
		"--name=seed",
		"--data-dir=" + filepath.Join(m.Layout.Run, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=seed=" + peer,
		"--quota-backend-bytes=4294967296",
		"--unsafe-no-fsync", // the data need not survive a power cut
	}
}

func (m Manager) apiServerFlags(auditPolicy string) []string {
	pki := m.file

	return []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", m.Layout.EtcdClientPort()),
		fmt.Sprintf("--secure-port=%d", m.Layout.APIPort()),
		"--bind-address=0.0.0.0",
		"--advertise-address=" + m.Layout.HostIP(),
		"--service-cluster-ip-range=" + m.Layout.ServiceCIDR(),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + pki("apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-key-file=" + pki("service-account.key"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + pki("front-proxy-client.key"),
		// This machine has no kube-proxy, so that the API server calls webhooks at the addresses of their pods.
		"--enable-aggregator-routing=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--profiling=false",
		"--audit-policy-file=" + auditPolicy,
		"--audit-log-path=" + m.Layout.AuditLog(),
		fmt.Sprintf("--audit-log-maxsize=%d", m.auditLogSize()),
		"--audit-log-maxbackup=2",
	}
}

// auditLogSize is the size in megabytes at which the API server starts another file. A measurement in the bench cluster reads only one file.
func (m Manager) auditLogSize() int {
	if m.Layout.Cluster == layout.Bench {
		return 8192
	}

	return 200
}

func (m Manager) controllerManagerFlags() []string {
	return append(m.clientFlags("controller-manager", m.Layout.ControllerManagerPort()),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+m.file("service-account.key"),
		"--root-ca-file="+m.file("ca.crt"),
		"--cluster-signing-cert-file="+m.file("ca.crt"),
		"--cluster-signing-key-file="+m.file("ca.key"),
		"--cluster-cidr="+m.Layout.PodCIDR(),
		"--service-cluster-ip-range="+m.Layout.ServiceCIDR(),
		"--allocate-node-cidrs=false",
		"--node-monitor-grace-period=40s",
	)
}

func (m Manager) schedulerFlags() []string {
	return m.clientFlags("scheduler", m.Layout.SchedulerPort())
}

// clientFlags returns the flags of clients of the API server. The default rate limit would allow about twenty pods in a
// second.
func (m Manager) clientFlags(name string, port int) []string {
	kubeconfig := m.file(name + ".kubeconfig")

	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--leader-elect=false",
		"--kube-api-qps=300",
		"--kube-api-burst=600",
	}
}

func (m Manager) file(name string) string { return filepath.Join(m.Layout.PKI(), name) }
