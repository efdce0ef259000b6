// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const (
	shootEntry  = "shoot--foo--bar--11111111-2222-3333-4444-555555555555"
	otherEntry  = "shoot--foo--bar--99999999-2222-3333-4444-555555555555"
	sourceEntry = "source-" + shootEntry
	gardenEntry = "garden--66666666-2222-3333-4444-555555555555"
)

// row is the input of a test case. The zero value is an Etcd main in shoot--foo--bar, with an empty store.
type row struct {
	namespace             string
	provider, container   string
	prefix, secret, entry string
	cluster, terminating  bool
	entries               []etcdcluster.BackupEntry
	secrets               []etcdcluster.StoreSecret
	pinned                string
}

func (r row) input() backupstore.ResolveInput {
	if r.namespace == "" {
		r.namespace = "shoot--foo--bar"
	}
	store := &druidv1alpha1.StoreSpec{Prefix: r.prefix}
	if r.provider != "" {
		store.Provider = new(druidv1alpha1.StorageProvider(r.provider))
	}
	if r.container != "" {
		store.Container = new(r.container)
	}
	if r.secret != "" {
		store.SecretRef = &corev1.SecretReference{Name: r.secret}
	}
	if r.entry != "" {
		store.BackupEntryRef = &druidv1alpha1.BackupEntryReference{Name: r.entry}
	}
	input := backupstore.ResolveInput{
		Etcd:     &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: r.namespace}},
		Gardener: etcdcluster.Gardener{BackupEntries: r.entries, StoreSecrets: r.secrets, NamespaceTerminating: r.terminating},
	}
	var err error
	input.Pinned, err = state.ParseStore(r.pinned)
	Expect(err).NotTo(HaveOccurred())
	input.Etcd.Spec.Backup.Store = store
	if r.cluster {
		input.Gardener.Cluster = &etcdcluster.CARotation{}
	}

	return input
}

// entry is a BackupEntry in state Succeeded, with the bucket "bucket" of S3.
func entry(name string, change ...func(*etcdcluster.BackupEntry)) etcdcluster.BackupEntry {
	entry := etcdcluster.BackupEntry{
		Name: name, Namespace: backupstore.EntryNamespace(name), Type: "aws", BucketName: "bucket", GenerationObserved: true, State: "Succeeded",
	}
	for _, change := range change {
		change(&entry)
	}

	return entry
}

func entriesOf(entries ...etcdcluster.BackupEntry) []etcdcluster.BackupEntry { return entries }

func publishes(namespace, name string) func(*etcdcluster.BackupEntry) {
	return func(entry *etcdcluster.BackupEntry) {
		entry.PublishedSecret = &corev1.SecretReference{Namespace: namespace, Name: name}
	}
}

func secretFor(name, by string) []etcdcluster.StoreSecret {
	return []etcdcluster.StoreSecret{{Name: name, CreatedBy: by}}
}

var _ = Describe("Resolve", func() {
	DescribeTable("finds the store",
		func(r row, expected backupstore.Store) {
			resolution := backupstore.Resolve(r.input())
			Expect(resolution.Message).To(ContainSubstring("Snapshots go to"))
			Expect(resolution.Reason).To(Equal("StoreResolved"))
			Expect(*resolution.Store).To(Equal(expected))
		},
		Entry("from a complete spec, as gardenlet writes it, regardless of the entry",
			row{provider: "aws", container: "c", prefix: shootEntry + "/etcd-main", secret: "etcd-backup", cluster: true, entries: entriesOf(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "Error" }))},
			backupstore.Store{Provider: "S3", Container: "c", Prefix: shootEntry + "/etcd-main", SecretName: "etcd-backup"}),
		Entry("by the Secret in the spec and the entry with provider and container, ready or not",
			row{secret: "mine", entry: shootEntry, entries: entriesOf(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "" }))},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "mine"}),
		Entry("from a complete spec with an entry that does not exist yet",
			row{provider: "aws", container: "c", secret: "mine", entry: shootEntry},
			backupstore.Store{Provider: "S3", Container: "c", Prefix: "shoot--foo--bar/main", SecretName: "mine"}),
		Entry("by the entry in the spec and its conventional Secret",
			row{entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the Secret that the entry publishes, before the conventional one",
			row{entry: shootEntry, entries: entriesOf(entry(shootEntry, publishes("shoot--foo--bar", "published"))), secrets: append(secretFor("etcd-backup", shootEntry), secretFor("published", shootEntry)...)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "published"}),
		Entry("by a published Secret without a namespace, which is in the namespace of the Etcd",
			row{entry: shootEntry, entries: entriesOf(entry(shootEntry, publishes("", "published"))), secrets: secretFor("published", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "published"}),
		Entry("by an entry of any name that publishes a Secret in the namespace of the Etcd",
			row{entry: "custom", entries: entriesOf(entry("custom", publishes("shoot--foo--bar", "published"))), secrets: secretFor("published", "custom")},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "custom/main", SecretName: "published"}),
		Entry("by the first segment of the prefix",
			row{provider: "aws", container: "bucket", prefix: shootEntry + "/etcd-main", entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/etcd-main", SecretName: "etcd-backup"}),
		Entry("by the first segment of a prefix that names a source",
			row{prefix: sourceEntry + "/etcd-main", entries: entriesOf(entry(shootEntry), entry(sourceEntry)), secrets: append(secretFor("etcd-backup", shootEntry), secretFor("source-etcd-backup", sourceEntry)...)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: sourceEntry + "/etcd-main", SecretName: "source-etcd-backup"}),
		Entry("with the prefix of the entry if a source entry is named",
			row{entry: sourceEntry, entries: entriesOf(entry(sourceEntry)), secrets: secretFor("source-etcd-backup", sourceEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "source-etcd-backup"}),
		Entry("by the namespace with a Cluster, if the spec names nothing",
			row{cluster: true, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the namespace with a Cluster, without source entries and entries of other namespaces",
			row{cluster: true, entries: entriesOf(entry(sourceEntry), entry(shootEntry), entry(gardenEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the namespace with a Cluster, while an older entry is being deleted",
			row{cluster: true, entries: entriesOf(entry(shootEntry), entry(otherEntry, func(e *etcdcluster.BackupEntry) { e.Deleting = true })), secrets: secretFor("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the namespace with a Cluster for its credentials, if provider and container match",
			row{cluster: true, provider: "S3", container: "bucket", entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the namespace garden, if the spec names nothing",
			row{namespace: "garden", prefix: "virtual-garden-etcd-main", entries: entriesOf(entry(gardenEntry)), secrets: secretFor("etcd-backup", gardenEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "virtual-garden-etcd-main", SecretName: "etcd-backup"}),
		Entry("in garden without its entry, if the spec names everything else",
			row{namespace: "garden", prefix: "virtual-garden-etcd-main", provider: "aws", container: "other", entries: entriesOf(entry(gardenEntry))},
			backupstore.Store{Provider: "S3", Container: "other", Prefix: "virtual-garden-etcd-main"}),
		Entry("by the identity of the infrastructure outside of Gardener",
			row{namespace: "default", provider: "aws", container: "c"},
			backupstore.Store{Provider: "S3", Container: "c", Prefix: "default/main"}),
		Entry("with a prefix similar to an entry outside of Gardener",
			row{namespace: "default", provider: "aws", container: "c", prefix: "team--a/main"},
			backupstore.Store{Provider: "S3", Container: "c", Prefix: "team--a/main"}),
		Entry("at the pinned location",
			row{entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry), pinned: `{"provider":"S3","container":"bucket","prefix":"` + shootEntry + `/main"}`},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("at the pinned location with other credentials",
			row{entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry), pinned: `{"provider":"S3","container":"bucket","prefix":"` + shootEntry + `/main","secretName":"older"}`},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("at the pinned location while the entry of a running cluster has a problem",
			row{entry: shootEntry, entries: entriesOf(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "Error" })), secrets: secretFor("etcd-backup", shootEntry), pinned: `{"provider":"S3","container":"bucket","prefix":"` + shootEntry + `/main","secretName":"etcd-backup"}`},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
	)

	DescribeTable("waits, and states for what",
		func(r row, reason, message string) {
			resolution := backupstore.Resolve(r.input())
			Expect(resolution.Store).To(BeNil())
			Expect(resolution.Refused).To(BeFalse())
			Expect(resolution.Reason).To(Equal(reason))
			Expect(resolution.Message).To(ContainSubstring(message))
		},
		Entry("for the entry that is named", row{entry: shootEntry},
			"BackupEntryNotFound", "BackupEntry "+shootEntry+" does not exist"),
		Entry("for the entry that the prefix names", row{prefix: shootEntry + "/etcd-main"},
			"BackupEntryNotFound", "BackupEntry "+shootEntry+" does not exist"),
		Entry("for the entry that the prefix names, instead of using the identity of the infrastructure", row{provider: "aws", container: "c", prefix: shootEntry + "/etcd-main"},
			"BackupEntryNotFound", "BackupEntry "+shootEntry+" does not exist"),
		Entry("for an entry of a namespace with a Cluster", row{cluster: true},
			"BackupEntryNotFound", "has a Cluster, and no BackupEntry yet"),
		Entry("for an entry of a namespace with a Cluster, instead of using the identity of the infrastructure", row{cluster: true, provider: "aws", container: "c"},
			"BackupEntryNotFound", "has a Cluster, and no BackupEntry yet"),
		Entry("for an entry that was never reconciled", row{entry: shootEntry, entries: entriesOf(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "" })), secrets: secretFor("etcd-backup", shootEntry)},
			"BackupEntryNotReady", "not reconciled in its newest generation yet"),
		Entry("for an entry that succeeded in an older generation", row{entry: shootEntry, entries: entriesOf(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.GenerationObserved = false })), secrets: secretFor("etcd-backup", shootEntry)},
			"BackupEntryNotReady", "not reconciled in its newest generation yet"),
		Entry("for an entry that failed", row{entry: shootEntry, entries: entriesOf(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State, e.Message = "Error", "no such bucket" })), secrets: secretFor("etcd-backup", shootEntry)},
			"BackupEntryNotReady", "in state Error: no such bucket"),
		Entry("for an entry that is being deleted", row{entry: shootEntry, entries: entriesOf(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.Deleting = true })), secrets: secretFor("etcd-backup", shootEntry)},
			"BackupEntryNotReady", "is being deleted"),
		Entry("for the Secret of the entry", row{entry: shootEntry, entries: entriesOf(entry(shootEntry))},
			"StoreSecretMissing", "Secret etcd-backup of BackupEntry "+shootEntry+" does not exist"),
		Entry("for the Secret that the entry publishes, and not for the conventional one", row{entry: shootEntry, entries: entriesOf(entry(shootEntry, publishes("shoot--foo--bar", "published"))), secrets: secretFor("etcd-backup", shootEntry)},
			"StoreSecretMissing", "Secret published of BackupEntry"),
		Entry("for the Secret to be that of the entry", row{entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", otherEntry)},
			"StoreSecretMissing", "was not made for BackupEntry "+shootEntry),
		Entry("for the Secret to be that of any entry", row{entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", "")},
			"StoreSecretMissing", "was not made for BackupEntry "+shootEntry),
		Entry("for the published Secret to be that of the entry", row{entry: shootEntry, entries: entriesOf(entry(shootEntry, publishes("", "published"))), secrets: secretFor("published", otherEntry)},
			"StoreSecretMissing", "was not made for BackupEntry "+shootEntry),
		Entry("in a namespace that is being deleted, in which Gardener creates no Secret", row{entry: shootEntry, terminating: true, entries: entriesOf(entry(shootEntry))},
			"StoreSecretMissing", "is not made while namespace shoot--foo--bar is being deleted"),
		Entry("for the entry although a location is pinned, if its Secret is gone", row{entry: shootEntry, pinned: `{"provider":"S3","container":"bucket","prefix":"p","secretName":"etcd-backup"}`},
			"BackupEntryNotFound", "does not exist"),
	)

	DescribeTable("refuses, and states the remedy",
		func(r row, reason, message string) {
			resolution := backupstore.Resolve(r.input())
			Expect(resolution.Store).To(BeNil())
			Expect(resolution.Refused).To(BeTrue())
			Expect(resolution.Reason).To(Equal(reason))
			Expect(resolution.Message).To(ContainSubstring(message))
		},
		Entry("more than one entry, and names them", row{cluster: true, entries: entriesOf(entry(shootEntry), entry(otherEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			"StoreInvalid", "more than one BackupEntry ("+shootEntry+", "+otherEntry+"): name one in spec.backup.store.backupEntryRef"),
		Entry("an entry of another namespace", row{namespace: "default", entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			"StoreInvalid", "are in namespace shoot--foo--bar"),
		Entry("a prefix that names an entry of another namespace", row{namespace: "default", provider: "aws", container: "bucket", prefix: shootEntry + "/etcd-main", entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			"StoreInvalid", "are in namespace shoot--foo--bar"),
		Entry("a published Secret of another namespace", row{entry: shootEntry, entries: entriesOf(entry(shootEntry, publishes("kube-system", "token"))), secrets: secretFor("token", shootEntry)},
			"StoreInvalid", "are in namespace kube-system"),
		Entry("an entry of another provider", row{provider: "gcp", container: "bucket", entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			"StoreInvalid", "is of type aws: omit provider and container"),
		Entry("an entry of another bucket", row{provider: "aws", container: "mine", entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry)},
			"StoreInvalid", "is in bucket bucket: omit provider and container"),
		Entry("an entry of a type that cannot store snapshots", row{entry: shootEntry, entries: entriesOf(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.Type = "tape" })), secrets: secretFor("etcd-backup", shootEntry)},
			"StoreInvalid", "not the type of an object store"),
		Entry("a store without any information", row{namespace: "default"},
			"StoreInvalid", "spec.backup.store.provider"),
		Entry("another container than the pinned one", row{entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry), pinned: `{"provider":"S3","container":"before","prefix":"` + shootEntry + `/main"}`},
			"StoreChanged", `snapshots went to S3 container "before"`),
		Entry("another provider than the pinned one", row{entry: shootEntry, entries: entriesOf(entry(shootEntry)), secrets: secretFor("etcd-backup", shootEntry), pinned: `{"provider":"GCS","container":"bucket","prefix":"` + shootEntry + `/main"}`},
			"StoreChanged", "snapshots went to GCS"),
		Entry("another prefix than the pinned one", row{provider: "aws", container: "c", secret: "s", prefix: "after", pinned: `{"provider":"S3","container":"c","prefix":"before"}`},
			"StoreChanged", `prefix "before" until now`),
		Entry("the identity of the infrastructure for a provider that has none", row{namespace: "default", provider: "azure", container: "ccc"},
			"StoreInvalid", "spec.backup.store.secretRef"),
	)
})

var _ = Describe("Pin", func() {
	It("is persisted with unchanged JSON names", func() {
		text, err := backupstore.RecordFor(backupstore.Store{Provider: "S3", Container: "c", Prefix: "p", SecretName: "s"}).Marshal()
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(Equal(`{"provider":"S3","container":"c","prefix":"p","secretName":"s"}`))
		Expect(state.ParseStore(text)).To(HaveValue(Equal(state.Store{Provider: "S3", Container: "c", Prefix: "p", SecretName: "s"})))
	})

	It("is not guessed if its record is invalid", func() {
		Expect(state.ParseStore("")).To(BeNil())
		_, err := state.ParseStore("broken")
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("Resolve, with FallBackOnRefusal,", func() {
	resolve := func(r row) backupstore.Resolution {
		input := r.input()
		input.FallBackOnRefusal = true

		return backupstore.Resolve(input)
	}
	moved := entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.BucketName = "other" })
	pinned := `{"provider":"S3","container":"bucket","prefix":"p","secretName":"etcd-backup"}`

	It("keeps the pinned store if validation refuses its endpoint, and reports that", func() {
		input := backupstore.ResolveInput{Etcd: &druidv1alpha1.Etcd{}, FallBackOnRefusal: true, Pinned: &state.Store{Provider: "S3", Container: "bucket", Prefix: "p"}}
		input.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
			Provider: new(druidv1alpha1.StorageProvider("aws")), Container: new("bucket"), Prefix: "p", EndpointOverride: new("https://user:password@host"),
			SecretRef: &corev1.SecretReference{Name: "own"},
		}
		resolution := backupstore.Resolve(input)
		Expect(resolution.Store).To(HaveValue(Equal(backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "p", SecretName: "own", EndpointOverride: "https://user:password@host"})))
		Expect(resolution.Message).To(And(ContainSubstring(", as before: "), ContainSubstring("must not have user info"), Not(ContainSubstring("password"))))
		Expect(resolution.Reason).To(Equal("StoreInvalid"), "the condition is False")

		input.Pinned.Container = "other"
		Expect(backupstore.Resolve(input).Store).To(BeNil())
		input.Pinned.Container, input.FallBackOnRefusal = "bucket", false
		Expect(backupstore.Resolve(input).Store).To(BeNil())
	})

	It("keeps the pinned store if the spec names another location, and reports that", func() {
		resolution := resolve(row{entry: shootEntry, prefix: "p", entries: entriesOf(moved), secrets: secretFor("etcd-backup", shootEntry), pinned: pinned})
		Expect(resolution.Store).To(HaveValue(Equal(backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "p", SecretName: "etcd-backup"})))
		Expect(resolution.Message).To(And(ContainSubstring(`container "bucket"`), ContainSubstring(", as before: "), ContainSubstring(`container "other"`)))
		Expect(resolution.Reason).To(Equal("StoreChanged"), "the condition is False")
	})

	It("stays resolved while the last operation of the entry failed", func() {
		failing := entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "Error" })
		resolution := resolve(row{entry: shootEntry, prefix: "p", entries: entriesOf(failing), secrets: secretFor("etcd-backup", shootEntry), pinned: pinned})
		Expect(resolution.Store).NotTo(BeNil())
		Expect(resolution.Reason).To(Equal("StoreResolved"))
	})

	It("uses another Secret of the entry for the same location", func() {
		rotated := entry(shootEntry, publishes("shoot--foo--bar", "rotated"))
		resolution := resolve(row{entry: shootEntry, prefix: "p", entries: entriesOf(rotated), secrets: append(secretFor("etcd-backup", shootEntry), secretFor("rotated", shootEntry)...), pinned: pinned})
		Expect(resolution.Store).To(HaveValue(HaveField("SecretName", "rotated")))
		Expect(resolution.Reason).To(Equal("StoreResolved"))
	})

	It("is refused if the credentials are gone", func() {
		Expect(resolve(row{entry: shootEntry, prefix: "p", entries: entriesOf(moved), pinned: `{"provider":"S3","container":"bucket","prefix":"p","secretName":"gone"}`, secrets: secretFor("etcd-backup", shootEntry)})).
			To(And(HaveField("Store", BeNil()), HaveField("Refused", BeTrue()), HaveField("Reason", "StoreChanged")))
	})
})
