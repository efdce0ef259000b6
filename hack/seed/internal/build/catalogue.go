// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package build builds the seed's programs from Go modules. It does not start them.
package build

import "strings"

// KubernetesVersion is the version that the Kubernetes programs report, since a build from modules has no version. It
// must be the version in modules/cluster/go.mod.
const KubernetesVersion = "v1.36.4"

// GardenerVersion is the same for the programs of Gardener. gardenlet compares its version with that of gardener-apiserver.
const GardenerVersion = "v1.150.0"

// cluster is the directory of the programs that share most of their packages with each other and with the operator. Its go.mod has the
// versions of the operator's go.mod, so that Go compiles each package once.
const cluster = "cluster"

// Module is a set of programs that are built together.
type Module struct {
	// Name is unique. It begins the name of the directory with the programs in the cache.
	Name string
	// Directory is the directory below hack/seed/modules whose go.mod pins the versions of the programs. Modules may share a
	// directory. Empty means Name.
	Directory string
	// Shared is the directory below hack/seed/modules of a module that the go.mod replaces by a relative path. Empty means none.
	Shared string
	// Programs maps the names of the binaries to their packages. A package of the directory itself begins with ".".
	Programs map[string]string
	// LinkerFlags are added to the linker flags of all modules.
	LinkerFlags string
}

// isShared returns whether most packages of the module are also packages of the operator.
func (m Module) isShared() bool { return m.Directory == cluster || m.Name == Kwok }

// Names of the modules.
const (
	Kubernetes      = "kubernetes"
	Etcd            = "etcd"
	Coredns         = "coredns"
	Provisioner     = "provisioner"
	NetworkPolicies = "networkpolicies"
	Pause           = "pause"
	Helm            = "helm"
	Gardener        = "gardener"
	ResourceManager = "resource-manager"
	BackupRestore   = "backup-restore"
	EtcdWrapper34   = "etcd-wrapper-3.4"
	EtcdWrapper35   = "etcd-wrapper-3.5"
	ObjectStore     = "object-store"
	Kwok            = "kwok"
	Kind            = "kind"
)

// Initial returns the names of the modules that a cluster with kubelets needs to start. The others are built when a command needs them.
func Initial() []string {
	return []string{Etcd, Kubernetes, Coredns, Provisioner, ResourceManager, Helm, BackupRestore, EtcdWrapper34, Pause}
}

// Tested returns the names of the modules that the seed and the end-to-end tests run. kind-up and the bench cluster build theirs.
func Tested() []string { return append(Initial(), NetworkPolicies, EtcdWrapper35, ObjectStore) }

// Catalogue returns all modules.
func Catalogue() []Module {
	return []Module{
		{Name: Etcd, Directory: cluster, Programs: map[string]string{"etcd": "go.etcd.io/etcd/server/v3", "etcdctl": "go.etcd.io/etcd/etcdctl/v3"}},
		{Name: Kubernetes, Directory: cluster, Programs: kubernetesPrograms(), LinkerFlags: kubernetesLinkerFlags()},
		{Name: Coredns, Directory: cluster, Programs: map[string]string{"coredns": "./coredns"}},
		{Name: Provisioner, Directory: cluster, Programs: map[string]string{"provisioner": "./provisioner"}},
		{Name: NetworkPolicies, Directory: cluster, Programs: map[string]string{"networkpolicies": "./networkpolicies"}},
		{Name: ResourceManager, Directory: cluster, Programs: map[string]string{"gardener-resource-manager": "github.com/gardener/gardener/cmd/gardener-resource-manager"}},
		{Name: Gardener, Directory: cluster, Programs: gardenerPrograms(), LinkerFlags: "-X k8s.io/component-base/version.gitVersion=" + GardenerVersion},
		{Name: Helm, Directory: cluster, Programs: map[string]string{"helm": "helm.sh/helm/v3/cmd/helm"}},
		{Name: Kwok, Programs: map[string]string{"kwok": "sigs.k8s.io/kwok/cmd/kwok"}},
		{Name: BackupRestore, Programs: map[string]string{"etcdbrctl": "github.com/gardener/etcd-backup-restore"}},
		{Name: EtcdWrapper34, Directory: "etcd-wrapper/etcd34", Shared: "etcd-wrapper/wrapper", Programs: map[string]string{"etcd-wrapper": "."}},
		{Name: EtcdWrapper35, Directory: "etcd-wrapper/etcd35", Shared: "etcd-wrapper/wrapper", Programs: map[string]string{"etcd-wrapper": "."}},
		{Name: ObjectStore, Programs: map[string]string{"versitygw": "github.com/versity/versitygw/cmd/versitygw"}},
		{Name: Kind, Programs: map[string]string{"kind": "sigs.k8s.io/kind"}},
		{Name: Pause, Programs: map[string]string{"pause": "."}},
	}
}

// Bench returns the names of the modules that the bench cluster needs to start.
func Bench() []string { return []string{Etcd, Kubernetes, Provisioner, ResourceManager, Kwok} }

// Landscape returns the names of the modules that a garden with a seed needs to start in addition to the initial ones.
func Landscape() []string { return []string{NetworkPolicies, Gardener, Kwok} }

func gardenerPrograms() map[string]string {
	programs := map[string]string{}
	for _, name := range []string{"gardener-apiserver", "gardener-controller-manager", "gardenlet", "gardener-extension-provider-local"} {
		programs[name] = "github.com/gardener/gardener/cmd/" + name
	}

	return programs
}

func kubernetesPrograms() map[string]string {
	programs := map[string]string{}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"} {
		programs[name] = "k8s.io/kubernetes/cmd/" + name
	}

	return programs
}

func kubernetesLinkerFlags() string {
	parts := strings.SplitN(strings.TrimPrefix(KubernetesVersion, "v"), ".", 3)

	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+KubernetesVersion,
			"-X "+pkg+".gitMajor="+parts[0],
			"-X "+pkg+".gitMinor="+parts[1],
			"-X "+pkg+".gitTreeState=clean",
			"-X "+pkg+".gitCommit=seed",
			"-X "+pkg+".buildDate=2026-01-01T00:00:00Z",
		)
	}

	return strings.Join(flags, " ")
}
