// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = DescribeTable("LabelValue", func(name, expected string) {
	Expect(helper.LabelValue(name)).To(Equal(expected))
},
	Entry("keeps a name", "main-client", "main-client"),
	Entry("replaces colons", "druid.gardener.cloud:etcd:main", "druid.gardener.cloud-etcd-main"),
	Entry("keeps 63 characters", strings.Repeat("a", 63), strings.Repeat("a", 63)),
	Entry("ends a longer name with its hash", strings.Repeat("a", 64), strings.Repeat("a", 54)+"-ffe054fe"),
)

var _ = Describe("Names", func() {
	DescribeTable("follow the name of the Etcd",
		func(name func(*druidv1alpha1.Etcd) string, expected string) {
			Expect(name(fixture.Etcd())).To(Equal(expected))
		},
		Entry("of the ManagedResource", helper.ManagedResourceName, "druid-test"),
		Entry("of the StatefulSet", helper.StatefulSetName, "test"),
		Entry("of the client Service", helper.ClientServiceName, "test-client"),
		Entry("of the peer Service", helper.PeerServiceName, "test-peer"),
		Entry("of the host inside a pod", helper.LocalHostName, "test-local"),
		Entry("of the ConfigMap", helper.ConfigMapName, "test-config"),
		Entry("of the ServiceAccount", helper.ServiceAccountName, "test"),
		Entry("of the Role", helper.RoleName, "druid.gardener.cloud:etcd:test"),
		Entry("of the PodDisruptionBudget", helper.PodDisruptionBudgetName, "test"),
		Entry("of the full snapshot lease", helper.FullSnapshotLeaseName, "test-full-snap"),
		Entry("of the delta snapshot lease", helper.DeltaSnapshotLeaseName, "test-delta-snap"),
		Entry("of the compaction Job", helper.CompactionJobName, "test-compactor"),
		Entry("of the Job that verifies a restore", helper.RestoreVerificationJobName, "test-verify"),
		Entry("of the Job that inspects a volume", func(etcd *druidv1alpha1.Etcd) string { return helper.InspectionJobName(etcd, 1) }, "test-1-inspect"),
		Entry("of the volume claim template", helper.VolumeClaimTemplateName, "test"),
		Entry("of the selector", helper.Selector, "app.kubernetes.io/managed-by=etcd-druid,app.kubernetes.io/part-of=test"),
	)

	It("of the Job that copies snapshots follows the name of the task", func() {
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Name: "copy"}}
		Expect(helper.CopyBackupsJobName(task)).To(Equal("copy-worker"))
	})

	DescribeTable("of members and claims",
		func(change override, pod, member, claim string) {
			etcd := fixture.Etcd(change)
			Expect(helper.PodName(etcd, 1)).To(Equal(pod))
			Expect(helper.MemberName(etcd, 1)).To(Equal(member))
			Expect(helper.ClaimName(etcd, 1)).To(Equal(claim))
		},
		Entry("are the pod's by default", func(*druidv1alpha1.Etcd) {}, "test-1", "test-1", "test-test-1"),
		Entry("carry the prefix, which pods do not", func(e *druidv1alpha1.Etcd) { e.Spec.MemberNamePrefix = new("eu") },
			"test-1", "eu-test-1", "test-test-1"),
		Entry("carry the claim template", func(e *druidv1alpha1.Etcd) { e.Spec.VolumeClaimTemplate = new("data") },
			"test-1", "test-1", "data-test-1"),
		Entry("do without a prefix and a claim template that are empty", func(e *druidv1alpha1.Etcd) {
			e.Spec.MemberNamePrefix, e.Spec.VolumeClaimTemplate = new(""), new("")
		}, "test-1", "test-1", "test-test-1"),
		Entry("carry the address where members are managed externally", func(e *druidv1alpha1.Etcd) {
			e.Spec.MemberNamePrefix = new("eu")
			e.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1", "10.0.0.2"}
		}, "test-1", "eu-test-10.0.0.2", "test-test-1"),
	)

	DescribeTable("of all members are as many as the replicas",
		func(replicas int32, expected []string) {
			Expect(helper.MemberNames(fixture.Etcd(), replicas)).To(Equal(expected))
			Expect(helper.MemberLeaseNames(fixture.Etcd(), replicas)).To(Equal(expected))
		},
		Entry("none", int32(0), []string{}),
		Entry("none for a negative number", int32(-1), []string{}),
		Entry("three", int32(3), []string{"test-0", "test-1", "test-2"}),
	)

	It("the owner reference makes the Etcd the controller", func() {
		Expect(helper.OwnerReference(fixture.Etcd())).To(Equal(metav1.OwnerReference{
			APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: "test", UID: "7a2c4c60-0c1f-4b52-9a8e-3f1f5d0a1b2c",
			Controller: new(true), BlockOwnerDeletion: new(true),
		}))
	})
})

var _ = Describe("State", func() {
	DescribeTable("a reconciliation is requested under either key, and both go",
		func(annotations map[string]string, requested bool, left map[string]string) {
			etcd := fixture.Etcd(func(e *druidv1alpha1.Etcd) { e.Annotations = annotations })
			Expect(helper.IsReconcileRequested(etcd)).To(Equal(requested))
			Expect(helper.RemoveOperationAnnotations(etcd)).To(Equal(requested))
			Expect(etcd.Annotations).To(Equal(left))
		},
		Entry("no annotation", nil, false, nil),
		Entry("the current key", map[string]string{"druid.gardener.cloud/operation": "reconcile", "a": "b"}, true, map[string]string{"a": "b"}),
		Entry("the older key", map[string]string{"gardener.cloud/operation": "reconcile"}, true, map[string]string{}),
		Entry("one key asks, the other says something else", map[string]string{
			"gardener.cloud/operation": "reconcile", "druid.gardener.cloud/operation": "other",
		}, true, map[string]string{}),
		Entry("another operation", map[string]string{"gardener.cloud/operation": "migrate"}, false,
			map[string]string{"gardener.cloud/operation": "migrate"}),
	)

	DescribeTable("questions with yes or no",
		func(question func(*druidv1alpha1.Etcd) bool, change override, expected bool) {
			Expect(question(fixture.Etcd(change))).To(Equal(expected))
		},
		Entry("not suspended by default", helper.IsSuspended, nothing, false),
		Entry("suspended by an annotation of any value", helper.IsSuspended,
			fixture.WithAnnotation("druid.gardener.cloud/suspend-etcd-spec-reconcile", ""), true),
		Entry("pods are managed by default", helper.ManagesPods, nothing, true),
		Entry("pods are not managed with external addresses", helper.ManagesPods,
			func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1"} }, false),
		Entry("pods are not managed with the older annotation", helper.ManagesPods,
			fixture.WithAnnotation("druid.gardener.cloud/disable-etcd-runtime-component-creation", "true"), false),
		Entry("one replica does not hibernate", helper.IsHibernated, nothing, false),
		Entry("no replica hibernates", helper.IsHibernated, fixture.WithReplicas(0), true),
		Entry("no store by default", helper.IsStoreConfigured, nothing, false),
		Entry("a store", helper.IsStoreConfigured, fixture.WithLocalStore(), true),
		Entry("claims are retained by default", helper.DeletesClaims, nothing, false),
		Entry("claims are retained", helper.DeletesClaims, retention("Retain"), false),
		Entry("claims are deleted", helper.DeletesClaims, retention("DeleteAll"), true),
	)
})

var _ = Describe("TLS", func() {
	It("is plaintext without references", func() {
		etcd := fixture.Etcd()
		Expect(helper.ClientTLS(etcd)).To(BeNil())
		Expect(helper.PeerTLS(etcd)).To(BeNil())
		Expect(helper.BackupTLS(etcd)).To(BeNil())
	})

	It("is plaintext with references that are switched off", func() {
		etcd := fixture.Etcd(fixture.WithTLS(), func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.EnableTLS = new(false) })
		Expect(helper.ClientTLS(etcd)).To(BeNil())
		Expect(helper.PeerTLS(etcd)).To(BeNil())
		Expect(helper.BackupTLS(etcd)).To(BeNil())
		Expect(helper.NeededSecrets(etcd)).To(BeEmpty())
	})

	It("consumes every reference as given", func() {
		etcd := fixture.Etcd(fixture.WithTLS())
		Expect(helper.ClientTLS(etcd).ServerTLSSecretRef.Name).To(Equal("client-server"))
		Expect(helper.PeerTLS(etcd).ServerTLSSecretRef.Name).To(Equal("peer-server"))
		Expect(helper.BackupTLS(etcd).ServerTLSSecretRef.Name).To(Equal("backup-server"))
	})

	It("lets the sidecar serve with the client references where it has none of its own", func() {
		Expect(helper.BackupTLS(fixture.Etcd(fixture.WithClientTLS())).ServerTLSSecretRef.Name).To(Equal("client-server"))
	})
})

var _ = Describe("ReferencedSecrets", func() {
	It("names each Secret of the spec once, also those that no pod needs", func() {
		etcd := fixture.Etcd(fixture.WithTLS(), fixture.WithStore("S3"), func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.EnableTLS = new(false)
			e.Spec.Etcd.PeerUrlTLS.ClientTLSSecretRef.Name = "peer-client"
			e.Spec.Backup.TLS.TLSCASecretRef.Name = "client-ca"
		})
		Expect(helper.ReferencedSecrets(etcd)).To(Equal([]string{
			"backup-client", "backup-server", "client-ca", "client-client", "client-server", "etcd-backup", "peer-ca", "peer-client", "peer-server",
		}))
	})

	It("leaves out references without a name", func() {
		Expect(helper.ReferencedSecrets(fixture.Etcd(fixture.WithPeerTLS()))).To(Equal([]string{"peer-ca", "peer-server"}))
		Expect(helper.ReferencedSecrets(fixture.Etcd(fixture.WithLocalStore()))).To(BeEmpty())
	})
})

var _ = Describe("NeededSecrets", func() {
	It("names every Secret that a pod mounts, its keys and the field that refers to it", func() {
		etcd := fixture.Etcd(fixture.WithTLS(), fixture.WithStore("S3"))
		Expect(helper.NeededSecrets(etcd)).To(Equal([]helper.SecretUse{
			{Name: "client-ca", Keys: []string{"ca.crt"}, Field: "spec.etcd.clientUrlTls.tlsCASecretRef"},
			{Name: "client-server", Keys: []string{"tls.crt", "tls.key"}, Field: "spec.etcd.clientUrlTls.serverTLSSecretRef"},
			{Name: "client-client", Keys: []string{"tls.crt", "tls.key"}, Field: "spec.etcd.clientUrlTls.clientTLSSecretRef"},
			{Name: "peer-ca", Keys: []string{"ca.crt"}, Field: "spec.etcd.peerUrlTls.tlsCASecretRef"},
			{Name: "peer-server", Keys: []string{"tls.crt", "tls.key"}, Field: "spec.etcd.peerUrlTls.serverTLSSecretRef"},
			{Name: "backup-ca", Keys: []string{"ca.crt"}, Field: "spec.backup.tls.tlsCASecretRef"},
			{Name: "backup-server", Keys: []string{"tls.crt", "tls.key"}, Field: "spec.backup.tls.serverTLSSecretRef"},
			{Name: "etcd-backup", Field: "spec.backup.store.secretRef"},
		}))
	})

	DescribeTable("takes either key of a CA where none is named, and leaves out references without a name", func(dataKey *string) {
		etcd := fixture.Etcd(fixture.WithClientTLS(), func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.ClientUrlTLS.TLSCASecretRef.DataKey = dataKey
			e.Spec.Etcd.ClientUrlTLS.ClientTLSSecretRef.Name = ""
		})
		Expect(helper.NeededSecrets(etcd)).To(Equal([]helper.SecretUse{
			{Name: "client-ca", AnyOf: []string{"bundle.crt", "ca.crt"}, Field: "spec.etcd.clientUrlTls.tlsCASecretRef"},
			{Name: "client-server", Keys: []string{"tls.crt", "tls.key"}, Field: "spec.etcd.clientUrlTls.serverTLSSecretRef"},
		}))
	},
		Entry("unset", nil),
		Entry("empty", new("")),
	)
})

var _ = Describe("Defaults", func() {
	DescribeTable("of the update strategy", func(operatorDefault, annotation, spec string, surges bool) {
		etcd := fixture.Etcd()
		if annotation != "" {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/update-strategy": annotation}
		}
		if spec != "" {
			etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategy(spec))
		}
		before := etcd.DeepCopy()
		Expect(helper.UsesSurge(helper.WithUpdateStrategy(etcd, druidv1alpha1.UpdateStrategy(operatorDefault)))).To(Equal(surges))
		Expect(etcd).To(Equal(before), "the Etcd itself stays as it is")
	},
		Entry("without any", "", "", "", false),
		Entry("of the operator", "Surge", "", "", true),
		Entry("of the annotation before that of the operator", "Surge", "Restart", "", false),
		Entry("of the annotation", "Restart", "Surge", "", true),
		Entry("of the spec before that of the annotation", "Surge", "Surge", "Restart", false),
		Entry("of the spec", "Restart", "Restart", "Surge", true),
		Entry("of the operator with an unknown annotation", "Surge", "Recreate", "", true),
	)

	DescribeTable("of the recovery policy", func(annotation, spec, expected string) {
		etcd := fixture.Etcd()
		if annotation != "" {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/recovery-policy": annotation}
		}
		if spec != "" {
			etcd.Spec.RecoveryPolicy = new(druidv1alpha1.RecoveryPolicy(spec))
		}
		Expect(helper.RecoveryPolicy(etcd)).To(BeEquivalentTo(expected))
	},
		Entry("without any", "", "", "Ask"),
		Entry("of the annotation", "AutoIfNoLoss", "", "AutoIfNoLoss"),
		Entry("of the spec before that of the annotation", "Auto", "Never", "Never"),
		Entry("with an unknown annotation", "Always", "", "Ask"),
	)

	It("take the place of what is unset", func() {
		etcd := fixture.Etcd()
		Expect([]int32{helper.ClientPort(etcd), helper.PeerPort(etcd), helper.WrapperPort(etcd), helper.BackupPort(etcd)}).
			To(Equal([]int32{2379, 2380, 9095, 8080}))
		Expect(helper.Quota(etcd)).To(Equal(*quantity("8Gi")))
		Expect(helper.StorageCapacity(etcd)).To(Equal(*quantity("16Gi")))
		Expect(helper.DeltaSnapshotMemoryLimit(etcd)).To(Equal(*quantity("100Mi")))
		Expect(helper.SnapshotCount(etcd)).To(BeEquivalentTo(10000))
		Expect(helper.Metrics(etcd)).To(BeEquivalentTo("basic"))
		Expect(helper.AutoCompactionMode(etcd)).To(BeEquivalentTo("periodic"))
		Expect(helper.AutoCompactionRetention(etcd)).To(Equal("30m"))
		Expect(helper.HeartbeatDuration(etcd)).To(Equal(10 * time.Second))
		Expect(helper.DefragmentationTimeout(etcd)).To(Equal(15 * time.Minute))
		Expect(helper.SnapshotTimeout(etcd)).To(Equal(15 * time.Minute))
		Expect(helper.DeltaSnapshotPeriod(etcd)).To(Equal(20 * time.Second))
		Expect(helper.FullSnapshotSchedule(etcd)).To(Equal("0 */1 * * *"))
		Expect(helper.GarbageCollectionPolicy(etcd)).To(BeEquivalentTo("LimitBased"))
		Expect(helper.MaxBackups(etcd)).To(BeEquivalentTo(7))
		Expect(helper.CompressionEnabled(etcd)).To(BeTrue())
		Expect(helper.CompressionPolicy(etcd)).To(BeEquivalentTo("gzip"))
		Expect(helper.ImagePullPolicy(etcd)).To(BeEquivalentTo("IfNotPresent"))
		Expect(helper.SnapstoreTempDir(etcd)).To(Equal("/var/etcd/data/temp"))
	})

	It("yield to what is set, zero included", func() {
		etcd := fixture.Etcd(func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.ClientPort = new(int32(12379))
			e.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{}
			e.Spec.Backup.SnapshotCompression = &druidv1alpha1.CompressionSpec{Enabled: new(false)}
		})
		Expect(helper.ClientPort(etcd)).To(BeEquivalentTo(12379))
		Expect(helper.DeltaSnapshotPeriod(etcd)).To(BeZero())
		Expect(helper.CompressionEnabled(etcd)).To(BeFalse())
		Expect(helper.CompressionPolicy(etcd)).To(BeEquivalentTo("gzip"))
	})
})

func nothing(*druidv1alpha1.Etcd) {}

func retention(policy druidv1alpha1.PVCRetentionPolicy) override {
	return func(e *druidv1alpha1.Etcd) { e.Spec.PVCRetentionPolicy = &policy }
}
