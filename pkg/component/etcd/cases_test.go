// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"os"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// goldenCase is one shape of an Etcd.
type goldenCase struct {
	// name is that of the golden file: testdata/<name>.golden.yaml.
	name string
	// base is the case, earlier in the list, against which the golden file is stored as a diff. Empty means in full.
	base string
	// input creates a new input for each rendering.
	input func() etcd.Input
	// root says that the containers run as root, for which the pod security standard is baseline.
	root bool
	// local says that snapshots lie on the node, for which there is no pod security standard.
	local bool
}

// goldenCases are all shapes of the golden files.
func goldenCases() []goldenCase {
	return append([]goldenCase{
		{name: "single-member", input: inputOf(fixture.WithStore("S3"))},
		{name: "three-members-tls", input: inputOf(fixture.WithReplicas(3), fixture.WithTLS(), fixture.WithStore("S3"), everySetting)},
		{name: "store-s3", base: "single-member", input: inputOf(fixture.WithStore("aws"))},
		{name: "store-s3-ambient", base: "single-member", input: inputOf(fixture.WithStore("aws"), withoutSecret)},
		{name: "store-s3-endpoint", base: "single-member", input: inputOf(fixture.WithStore("stackit"), withEndpoint)},
		{name: "store-abs", base: "single-member", input: inputOf(fixture.WithStore("azure"))},
		{name: "store-gcs", base: "single-member", input: inputOf(fixture.WithStore("gcp"))},
		{name: "store-gcs-ambient", base: "single-member", input: inputOf(fixture.WithStore("gcp"), withoutSecret)},
		{name: "store-swift", base: "single-member", input: inputOf(fixture.WithStore("openstack"))},
		{name: "store-oss", base: "single-member", input: inputOf(fixture.WithStore("alicloud"))},
		{name: "store-ecs", base: "single-member", input: inputOf(fixture.WithStore("dell"))},
		{name: "store-ocs", base: "single-member", input: inputOf(fixture.WithStore("openshift"))},
		{name: "store-local", base: "single-member", input: inputOf(fixture.WithLocalStore()), local: true},
		{name: "store-local-as-root", base: "single-member", input: inputOf(fixture.WithLocalStore(), runAsRoot), root: true, local: true},
		{name: "store-none", base: "single-member", input: inputOf()},
		{name: "hibernated", base: "single-member", input: inputOf(fixture.WithReplicas(0), fixture.WithStore("S3"))},
		{name: "image-digests", base: "single-member", input: withDigests, local: true},
		{name: "network-policies", base: "single-member", input: withNetworkPolicies(fixture.WithStore("S3"))},
		{name: "network-policies-without-store", base: "single-member", input: withNetworkPolicies()},
		{name: "run-as-root", base: "single-member", input: inputOf(fixture.WithStore("S3"), runAsRoot), root: true},
		{name: "externally-managed", input: inputOf(fixture.WithStore("S3"), externallyManaged)},
		{name: "runtime-components-off", input: inputOf(fixture.WithStore("S3"),
			fixture.WithAnnotation("druid.gardener.cloud/disable-etcd-runtime-component-creation", ""))},
		{name: "deprecated-fields", input: deprecatedFields},
		{name: "etcd-3.4", base: "single-member", input: ofVersion("3.4")},
		{name: "etcd-3.5", base: "single-member", input: ofVersion("3.5")},
	}, gardenletCases()...)
}

// defaults are what an operator outside of Gardener would have.
func defaults() state.Defaults {
	return state.Defaults{ImageSets: map[string]state.Images{"3.4": {
		EtcdWrapper:   "example.com/etcd-wrapper:v1",
		BackupRestore: "example.com/etcd-backup-restore:v2",
		Init:          "example.com/init:v3",
	}}}
}

// inputOf is the input of an Etcd whose plan is complete.
func inputOf(options ...func(*druidv1alpha1.Etcd)) func() etcd.Input {
	return func() etcd.Input { return inputFor(fixture.Etcd(options...)) }
}

// inputFor is the input of an Etcd of any form, whose plan is complete.
func inputFor(obj *druidv1alpha1.Etcd) etcd.Input {
	canonical, errs := helper.Canonical(obj)
	ExpectWithOffset(1, errs).To(BeEmpty())

	in := etcd.Input{
		Etcd:        canonical,
		Replicas:    canonical.Spec.Replicas,
		ClusterSize: canonical.Spec.Replicas,
		Existing:    canonical.Spec.Etcd.BootstrapWithExistingCluster,
		Defaults:    defaults(),
	}
	if spec := canonical.Spec.Backup.Store; spec != nil {
		store, errs := backupstore.FromSpec(*spec, canonical.Namespace, canonical.Name, field.NewPath("spec", "backup", "store"))
		ExpectWithOffset(1, errs).To(BeEmpty())
		in.Store = &store
	}

	return in
}

func deprecatedFields() etcd.Input {
	manifest, err := os.ReadFile("../../../example/40-etcd-deprecated-fields.yaml")
	Expect(err).NotTo(HaveOccurred())
	obj := &druidv1alpha1.Etcd{}
	Expect(yaml.UnmarshalStrict(manifest, obj)).To(Succeed())
	obj.UID = fixture.Etcd().UID

	return inputFor(obj)
}

// withDigests is an Etcd whose images have digests: those of the spec, and that of the operator.
func withDigests() etcd.Input {
	in := inputFor(fixture.Etcd(fixture.WithLocalStore(), func(obj *druidv1alpha1.Etcd) {
		obj.Spec.Etcd.Image = new("example.com/etcd-wrapper@sha256:0a1b")
		obj.Spec.Backup.Image = new("example.com/etcd-backup-restore:v2@sha256:2c3d")
	}))
	images := in.Defaults.ImageSets["3.4"]
	images.Init = "example.com/init@sha256:4e5f"
	in.Defaults.ImageSets["3.4"] = images

	return in
}

// ofVersion is an Etcd of a version of etcd, with an option whose name depends on the version.
func ofVersion(version string) func() etcd.Input {
	return func() etcd.Input {
		in := inputFor(fixture.Etcd(fixture.WithStore("S3"), func(obj *druidv1alpha1.Etcd) {
			obj.Spec.Etcd.BackendBboltFreelistType = new(druidv1alpha1.BboltFreelistMap)
		}))
		in.EtcdVersion = version

		return in
	}
}

// withNetworkPolicies is an Etcd of an operator with NetworkPolicies.
func withNetworkPolicies(options ...func(*druidv1alpha1.Etcd)) func() etcd.Input {
	return func() etcd.Input {
		in := inputFor(fixture.Etcd(options...))
		in.Defaults.NetworkPolicies = &state.NetworkPolicies{
			Operator: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "etcd-druid"}},
				PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "gardener-extension-etcd-druid"}},
			}},
			Monitoring: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "monitoring"}}}},
		}

		return in
	}
}

func withoutSecret(obj *druidv1alpha1.Etcd) { obj.Spec.Backup.Store.SecretRef = nil }

func withEndpoint(obj *druidv1alpha1.Etcd) {
	obj.Spec.Backup.Store.EndpointOverride = new("https://object.storage.example.com")
}

func runAsRoot(obj *druidv1alpha1.Etcd) { obj.Spec.RunAsRoot = new(true) }

func externallyManaged(obj *druidv1alpha1.Etcd) {
	obj.Spec.Replicas = 3
	obj.Spec.ExternallyManagedMemberAddresses = []string{"192.168.0.1", "192.168.0.2", "192.168.0.3"}
	obj.Spec.Etcd.WrapperPort = new(int32(9096))
}

// everySetting sets every field that goes into a rendering and has a default.
func everySetting(obj *druidv1alpha1.Etcd) {
	spec := &obj.Spec
	spec.Annotations = map[string]string{"example.com/pod": "annotation"}
	spec.MemberNamePrefix = new("seed-1")
	spec.PriorityClassName = new("important")
	spec.StorageClass = new("fast")
	spec.StorageCapacity = new(resource.MustParse("25Gi"))
	spec.VolumeClaimTemplate = new("main-etcd")
	spec.Common.AutoCompactionMode = new(druidv1alpha1.Revision)
	spec.Common.AutoCompactionRetention = new("1000")
	setScheduling(&spec.SchedulingConstraints)
	setEtcd(&spec.Etcd)
	setBackup(&spec.Backup)
}

func setScheduling(constraints *druidv1alpha1.SchedulingConstraints) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "test"}}
	constraints.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: "kubernetes.io/hostname"}},
	}}
	constraints.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
	}}
	constraints.Tolerations = []corev1.Toleration{{Key: "etcd", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
}

func setEtcd(config *druidv1alpha1.EtcdConfig) {
	config.Quota = new(resource.MustParse("4Gi"))
	config.SnapshotCount = new(int64(5000))
	config.EnableGRPCGateway = new(true)
	config.DefragmentationSchedule = new("0 1 * * *")
	config.Image = new("example.com/own-wrapper:v9")
	config.Metrics = new(druidv1alpha1.Extensive)
	config.Resources = resources("150m", "500M")
	config.EtcdDefragTimeout = &metav1.Duration{Duration: 10 * 60e9}
	config.HeartbeatDuration = &metav1.Duration{Duration: 20e9}
	config.BackendBboltFreelistType = new(druidv1alpha1.BboltFreelistMap)
	config.PeerUrlTLS.SkipClientSANVerification = new(true)
	config.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: "seed-1-test-1", URLs: []string{"https://member-1.example.com:2380"}}}
	config.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
		Members:         []druidv1alpha1.BootstrapExistingMember{{Name: "old-0", PeerURLs: []string{"https://old-0.example.com:2380"}}},
		ClientEndpoints: []string{"https://old.example.com:2379"},
	}
	config.ClientService = &druidv1alpha1.ClientService{
		Annotations:         map[string]string{"example.com/service": "annotation"},
		Labels:              map[string]string{"example.com/service": "label", "app.kubernetes.io/managed-by": "other", "app.kubernetes.io/name": "other"},
		TrafficDistribution: new("PreferClose"),
	}
}

func setBackup(backup *druidv1alpha1.BackupSpec) {
	backup.Image = new("example.com/own-sidecar:v9")
	backup.Resources = resources("20m", "80Mi")
	backup.FullSnapshotSchedule = new("0 2 * * *")
	backup.GarbageCollectionPolicy = new(druidv1alpha1.GarbageCollectionPolicyExponential)
	backup.GarbageCollectionPeriod = &metav1.Duration{Duration: 12 * 3600e9}
	backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: 300e9}
	backup.DeltaSnapshotMemoryLimit = new(resource.MustParse("50Mi"))
	backup.DeltaSnapshotRetentionPeriod = &metav1.Duration{Duration: 48 * 3600e9}
	backup.SnapshotCompression = &druidv1alpha1.CompressionSpec{Enabled: new(false), Policy: new(druidv1alpha1.LzwCompression)}
	backup.EnableProfiling = new(true)
	backup.EtcdSnapshotTimeout = &metav1.Duration{Duration: 20 * 60e9}
	backup.LeaderElection = &druidv1alpha1.LeaderElectionSpec{
		ReelectionPeriod:      &metav1.Duration{Duration: 6e9},
		EtcdConnectionTimeout: &metav1.Duration{Duration: 7e9},
	}
}

func resources(cpu, memory string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}
