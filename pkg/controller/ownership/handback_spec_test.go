// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("SpecForPredecessor", func() {
	var (
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--foo", Name: "main"}}
		etcd.Spec.Replicas = 1
		o = etcdcluster.Observation{}
		o.State.TLS = fixture.TLSModes("client=plaintext,peer=plaintext")
		o.StatefulSet.Exists = true
	})
	reference := func(name string) corev1.SecretReference {
		return corev1.SecretReference{Namespace: "shoot--foo", Name: name}
	}
	bundle := func(name string) druidv1alpha1.SecretReference {
		return druidv1alpha1.SecretReference{SecretReference: reference(name), DataKey: new("bundle.crt")}
	}

	It("references the issued Secrets, also for the sidecar", func() {
		etcd.Spec.Etcd.EnableTLS = new(true)
		o.State.TLS = fixture.TLSModes("client=provisioned,peer=provisioned")
		o.StatefulSet.TLS = etcdcluster.MountedTLS{ClientCA: "ca-1", Server: "server-1", Client: "client-1", PeerCA: "peer-ca-1", Peer: "peer-1"}

		complete, err := ownership.SpecForEtcdDruid(etcd, o)

		Expect(err).NotTo(HaveOccurred())
		client := druidv1alpha1.TLSConfig{TLSCASecretRef: bundle("ca-1"), ServerTLSSecretRef: reference("server-1"), ClientTLSSecretRef: reference("client-1")}
		Expect(complete.Spec.Etcd.ClientUrlTLS).To(HaveValue(Equal(client)))
		Expect(complete.Spec.Backup.TLS).To(HaveValue(Equal(client)))
		Expect(complete.Spec.Etcd.PeerUrlTLS).To(HaveValue(Equal(druidv1alpha1.PeerTLSConfig{TLSConfig: druidv1alpha1.TLSConfig{TLSCASecretRef: bundle("peer-ca-1"), ServerTLSSecretRef: reference("peer-1")}})))
		Expect(complete.Spec.Etcd.EnableTLS).To(BeNil())
	})

	It("references no Secrets if TLS is disabled, since etcd-druid would use them", func() {
		etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{ServerTLSSecretRef: reference("given")}
		etcd.Spec.Etcd.EnableTLS = new(false)
		o.State.TLS = fixture.TLSModes("client=disabled,peer=disabled")

		complete, err := ownership.SpecForEtcdDruid(etcd, o)

		Expect(err).NotTo(HaveOccurred())
		Expect(complete.Spec.Etcd.ClientUrlTLS).To(BeNil())
	})

	It("sets the resolved store", func() {
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{BackupEntryRef: &druidv1alpha1.BackupEntryReference{Name: "entry"}}
		o.State.Store = &state.Store{Provider: "S3", Container: "bucket", Prefix: "entry/main", SecretName: "etcd-backup"}

		complete, err := ownership.SpecForEtcdDruid(etcd, o)

		Expect(err).NotTo(HaveOccurred())
		Expect(complete.Spec.Backup.Store).To(HaveValue(Equal(druidv1alpha1.StoreSpec{
			Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: "entry/main", SecretRef: new(reference("etcd-backup")),
		})))
	})

	DescribeTable("replaces the version of etcd by the images of the rendered version",
		func(version string, wrapper, sidecar *string) {
			etcd.Spec.Etcd.Version = &version
			o.State.EtcdVersion = version
			o.State.Accepted = &state.Accepted{Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "w", BackupRestore: "b"}}}}

			complete, err := ownership.SpecForEtcdDruid(etcd, o)

			Expect(err).NotTo(HaveOccurred())
			Expect(complete.Spec.Etcd.Version).To(BeNil())
			Expect(complete.Spec.Etcd.Image).To(Equal(wrapper))
			Expect(complete.Spec.Backup.Image).To(Equal(sidecar))
		},
		Entry("3.4, for which etcd-druid has images", "3.4", nil, nil),
		Entry("3.5", "3.5", new("w"), new("b")),
	)

	It("keeps the values of the spec", func() {
		etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{TLSCASecretRef: bundle("given-ca"), ServerTLSSecretRef: reference("given-server"), ClientTLSSecretRef: reference("given-client")}
		etcd.Spec.Backup.TLS = etcd.Spec.Etcd.ClientUrlTLS.DeepCopy()
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("aws")), Container: new("bucket"), Prefix: "entry/main", SecretRef: new(reference("given"))}
		o.State.TLS = fixture.TLSModes("client=given,peer=plaintext")
		o.State.Store = &state.Store{Provider: "S3", Container: "bucket", Prefix: "entry/main", SecretName: "given"}

		complete, err := ownership.SpecForEtcdDruid(etcd, o)

		Expect(err).NotTo(HaveOccurred())
		Expect(complete.Spec).To(Equal(etcd.Spec))
	})

	DescribeTable("refuses what etcd-druid cannot reconcile",
		func(message string, mutate func()) {
			mutate()
			_, err := ownership.SpecForEtcdDruid(etcd, o)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("deprecated fields", "deprecated fields, which", func() {
			etcd.Spec.Backup.ImageVersion, etcd.Spec.Backup.ImageRepository = new("v1"), new("registry.example.com/etcdbrctl")
		}),
		Entry("issued certificates that are not rolled out", "mount", func() { o.State.TLS = fixture.TLSModes("client=provisioned,peer=provisioned") }),
		Entry("a store that was never resolved", "snapshots", func() { etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{} }),
		Entry("an invalid record of the store", "until now", func() {
			etcd.Spec.Backup.Store, o.State.StoreError = &druidv1alpha1.StoreSpec{}, "reading where snapshots went until now"
		}),
	)
})

var _ = Describe("CheckSettled", func() {
	var (
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--foo", Name: "main", Generation: 2}}
		etcd.Spec.Replicas = 1
		etcd.Status.ObservedGeneration = new(int64(2))
		etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "AllMembersUpdated", Status: "True"}}
		o = etcdcluster.Observation{}
		o.ManagedResource = etcdcluster.ManagedResource{Exists: true, GenerationObserved: true, Applied: etcdcluster.ConditionFact{Status: "True"}}
	})

	It("accepts an Etcd without changes in progress", func() {
		Expect(ownership.CheckReconciled(etcd, o)).To(Succeed())
	})

	DescribeTable("names the change in progress",
		func(message string, mutate func()) {
			mutate()
			Expect(ownership.CheckReconciled(etcd, o)).To(MatchError(ContainSubstring(message)))
		},
		Entry("a deletion", "deleted", func() { etcd.DeletionTimestamp = new(metav1.Now()) }),
		Entry("what cannot be read", "timeout", func() {
			o.Failures = []etcdcluster.ReadFailure{{Section: "pods", Message: "timeout"}}
		}),
		Entry("a new generation", "newest generation", func() { etcd.Generation = 3 }),
		Entry("a requested operation", "annotation", func() {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
		}),
		Entry("a failure", "no such bucket", func() {
			etcd.Status.LastErrors = []druidv1alpha1.LastError{{Description: "no such bucket"}}
		}),
		Entry("a rolling update", "updated", func() { etcd.Status.Conditions[0].Status = "False" }),
		Entry("manifests that are not applied", "applied", func() { o.ManagedResource.Applied.Status = "False" }),
		Entry("the recovery of a hibernated cluster", "the recovery from a lost quorum is not complete", func() {
			etcd.Spec.Replicas, o.State.Restore = 0, state.RestoreRecover
		}),
		Entry("a volume migration that has not begun", "the volume migration is not complete", func() {
			o.State.Migration = &state.Migration{Phase: state.MigrationRequested}
		}),
		Entry("a scale-in", "the scale-in to 1 members is not complete", func() { o.State.ScaleIn = &state.ScaleIn{To: 1} }),
		Entry("different data", "its members have different data", func() { o.State.Inconsistency = &state.Inconsistency{} }),
		Entry("a rollback that no user has accepted", "lower revision", func() {
			o.State.Evidence = &state.Evidence{HighestRevision: 60, RolledBack: &state.RolledBack{Revision: 10}}
		}),
		Entry("a database without space", "rejects writes", func() { o.State.Space = &state.Space{} }),
		Entry("a rotation of the CAs", "rotated", func() { o.State.Rotation = &state.Rotation{Stage: state.StagePrepared} }),
	)
})
