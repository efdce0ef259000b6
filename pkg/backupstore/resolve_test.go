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

// row is what is asked. The zero value: an Etcd main in shoot--foo--bar, with an empty store.
type row struct {
	namespace             string
	provider, container   string
	prefix, secret, entry string
	cluster, terminating  bool
	entries               []etcdcluster.BackupEntry
	secrets               []etcdcluster.StoreSecret
	pinned                string
}

func (r row) question() backupstore.Question {
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
	question := backupstore.Question{
		Etcd:     &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: r.namespace}},
		Gardener: etcdcluster.Gardener{BackupEntries: r.entries, StoreSecrets: r.secrets, NamespaceTerminating: r.terminating},
	}
	var err error
	question.Pinned, err = state.ParseStore(r.pinned)
	Expect(err).NotTo(HaveOccurred())
	question.Etcd.Spec.Backup.Store = store
	if r.cluster {
		question.Gardener.Cluster = &etcdcluster.CARotation{}
	}

	return question
}

// entry is one that succeeded, in the bucket "bucket" of S3.
func entry(name string, change ...func(*etcdcluster.BackupEntry)) etcdcluster.BackupEntry {
	entry := etcdcluster.BackupEntry{
		Name: name, Namespace: backupstore.EntryNamespace(name), Type: "aws", BucketName: "bucket", GenerationObserved: true, State: "Succeeded",
	}
	for _, change := range change {
		change(&entry)
	}

	return entry
}

func seen(entries ...etcdcluster.BackupEntry) []etcdcluster.BackupEntry { return entries }

func publishes(namespace, name string) func(*etcdcluster.BackupEntry) {
	return func(entry *etcdcluster.BackupEntry) {
		entry.PublishedSecret = &corev1.SecretReference{Namespace: namespace, Name: name}
	}
}

func made(name, by string) []etcdcluster.StoreSecret {
	return []etcdcluster.StoreSecret{{Name: name, CreatedBy: by}}
}

var _ = Describe("Resolve", func() {
	DescribeTable("finds the store",
		func(r row, expected backupstore.Store) {
			resolution := backupstore.Resolve(r.question())
			Expect(resolution.Message).To(ContainSubstring("Snapshots go to"))
			Expect(resolution.Reason).To(Equal("StoreResolved"))
			Expect(*resolution.Store).To(Equal(expected))
		},
		Entry("named completely, as gardenlet does, whatever the entry says",
			row{provider: "aws", container: "c", prefix: shootEntry + "/etcd-main", secret: "etcd-backup", cluster: true, entries: seen(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "Error" }))},
			backupstore.Store{Provider: "S3", Container: "c", Prefix: shootEntry + "/etcd-main", SecretName: "etcd-backup"}),
		Entry("by the Secret that is named and the entry that tells provider and container, ready or not",
			row{secret: "mine", entry: shootEntry, entries: seen(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "" }))},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "mine"}),
		Entry("named completely beside an entry that does not exist yet",
			row{provider: "aws", container: "c", secret: "mine", entry: shootEntry},
			backupstore.Store{Provider: "S3", Container: "c", Prefix: "shoot--foo--bar/main", SecretName: "mine"}),
		Entry("by the entry that is named and its conventional Secret",
			row{entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the Secret that the entry publishes, before the conventional one",
			row{entry: shootEntry, entries: seen(entry(shootEntry, publishes("shoot--foo--bar", "published"))), secrets: append(made("etcd-backup", shootEntry), made("published", shootEntry)...)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "published"}),
		Entry("by a published Secret without a namespace, which is ours",
			row{entry: shootEntry, entries: seen(entry(shootEntry, publishes("", "published"))), secrets: made("published", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "published"}),
		Entry("by an entry of any name that publishes a Secret of our namespace",
			row{entry: "custom", entries: seen(entry("custom", publishes("shoot--foo--bar", "published"))), secrets: made("published", "custom")},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "custom/main", SecretName: "published"}),
		Entry("by the first segment of the prefix",
			row{provider: "aws", container: "bucket", prefix: shootEntry + "/etcd-main", entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/etcd-main", SecretName: "etcd-backup"}),
		Entry("by the first segment of a prefix that names a source",
			row{prefix: sourceEntry + "/etcd-main", entries: seen(entry(shootEntry), entry(sourceEntry)), secrets: append(made("etcd-backup", shootEntry), made("source-etcd-backup", sourceEntry)...)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: sourceEntry + "/etcd-main", SecretName: "source-etcd-backup"}),
		Entry("under the prefix of the entry itself where a source is named",
			row{entry: sourceEntry, entries: seen(entry(sourceEntry)), secrets: made("source-etcd-backup", sourceEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "source-etcd-backup"}),
		Entry("by the namespace with a Cluster, where nothing is named",
			row{cluster: true, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the namespace with a Cluster, where source entries and entries of other namespaces are not meant",
			row{cluster: true, entries: seen(entry(sourceEntry), entry(shootEntry), entry(gardenEntry)), secrets: made("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the namespace with a Cluster, where an older entry is being deleted",
			row{cluster: true, entries: seen(entry(shootEntry), entry(otherEntry, func(e *etcdcluster.BackupEntry) { e.Deleting = true })), secrets: made("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the namespace with a Cluster for its credentials, where provider and container are named and agree",
			row{cluster: true, provider: "S3", container: "bucket", entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("by the namespace garden, where nothing is named",
			row{namespace: "garden", prefix: "virtual-garden-etcd-main", entries: seen(entry(gardenEntry)), secrets: made("etcd-backup", gardenEntry)},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "virtual-garden-etcd-main", SecretName: "etcd-backup"}),
		Entry("in garden without its entry, where the spec names everything else",
			row{namespace: "garden", prefix: "virtual-garden-etcd-main", provider: "aws", container: "other", entries: seen(entry(gardenEntry))},
			backupstore.Store{Provider: "S3", Container: "other", Prefix: "virtual-garden-etcd-main"}),
		Entry("by the identity of the infrastructure outside of Gardener",
			row{namespace: "default", provider: "aws", container: "c"},
			backupstore.Store{Provider: "S3", Container: "c", Prefix: "default/main"}),
		Entry("with a prefix that looks a little like an entry outside of Gardener",
			row{namespace: "default", provider: "aws", container: "c", prefix: "team--a/main"},
			backupstore.Store{Provider: "S3", Container: "c", Prefix: "team--a/main"}),
		Entry("where it was until now",
			row{entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry), pinned: `{"provider":"S3","container":"bucket","prefix":"` + shootEntry + `/main"}`},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("where it was until now with other credentials",
			row{entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry), pinned: `{"provider":"S3","container":"bucket","prefix":"` + shootEntry + `/main","secretName":"older"}`},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
		Entry("where it was until now while the entry is in trouble, and a running cluster goes on",
			row{entry: shootEntry, entries: seen(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "Error" })), secrets: made("etcd-backup", shootEntry), pinned: `{"provider":"S3","container":"bucket","prefix":"` + shootEntry + `/main","secretName":"etcd-backup"}`},
			backupstore.Store{Provider: "S3", Container: "bucket", Prefix: shootEntry + "/main", SecretName: "etcd-backup"}),
	)

	DescribeTable("waits, and says for what",
		func(r row, reason, message string) {
			resolution := backupstore.Resolve(r.question())
			Expect(resolution.Store).To(BeNil())
			Expect(resolution.Refused).To(BeFalse())
			Expect(resolution.Reason).To(Equal(reason))
			Expect(resolution.Message).To(ContainSubstring(message))
		},
		Entry("for the entry that is named", row{entry: shootEntry},
			"BackupEntryNotFound", "BackupEntry "+shootEntry+" does not exist"),
		Entry("for the entry that the prefix names", row{prefix: shootEntry + "/etcd-main"},
			"BackupEntryNotFound", "BackupEntry "+shootEntry+" does not exist"),
		Entry("for the entry that the prefix names, rather than to use the identity of the infrastructure", row{provider: "aws", container: "c", prefix: shootEntry + "/etcd-main"},
			"BackupEntryNotFound", "BackupEntry "+shootEntry+" does not exist"),
		Entry("for an entry of a namespace with a Cluster", row{cluster: true},
			"BackupEntryNotFound", "has a Cluster, and no BackupEntry yet"),
		Entry("for an entry of a namespace with a Cluster, rather than to use the identity of the infrastructure", row{cluster: true, provider: "aws", container: "c"},
			"BackupEntryNotFound", "has a Cluster, and no BackupEntry yet"),
		Entry("for an entry that was never reconciled", row{entry: shootEntry, entries: seen(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "" })), secrets: made("etcd-backup", shootEntry)},
			"BackupEntryNotReady", "not reconciled in its newest generation yet"),
		Entry("for an entry that succeeded in an older generation", row{entry: shootEntry, entries: seen(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.GenerationObserved = false })), secrets: made("etcd-backup", shootEntry)},
			"BackupEntryNotReady", "not reconciled in its newest generation yet"),
		Entry("for an entry that failed", row{entry: shootEntry, entries: seen(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State, e.Message = "Error", "no such bucket" })), secrets: made("etcd-backup", shootEntry)},
			"BackupEntryNotReady", "in state Error: no such bucket"),
		Entry("for an entry that is being deleted", row{entry: shootEntry, entries: seen(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.Deleting = true })), secrets: made("etcd-backup", shootEntry)},
			"BackupEntryNotReady", "is being deleted"),
		Entry("for the Secret of the entry", row{entry: shootEntry, entries: seen(entry(shootEntry))},
			"StoreSecretMissing", "Secret etcd-backup of BackupEntry "+shootEntry+" does not exist"),
		Entry("for the Secret that the entry publishes, and not for the conventional one", row{entry: shootEntry, entries: seen(entry(shootEntry, publishes("shoot--foo--bar", "published"))), secrets: made("etcd-backup", shootEntry)},
			"StoreSecretMissing", "Secret published of BackupEntry"),
		Entry("for the Secret to be that of the entry", row{entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", otherEntry)},
			"StoreSecretMissing", "was not made for BackupEntry "+shootEntry),
		Entry("for the Secret to be that of any entry", row{entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", "")},
			"StoreSecretMissing", "was not made for BackupEntry "+shootEntry),
		Entry("for the published Secret to be that of the entry", row{entry: shootEntry, entries: seen(entry(shootEntry, publishes("", "published"))), secrets: made("published", otherEntry)},
			"StoreSecretMissing", "was not made for BackupEntry "+shootEntry),
		Entry("in a namespace that is being deleted, where Gardener makes no Secret", row{entry: shootEntry, terminating: true, entries: seen(entry(shootEntry))},
			"StoreSecretMissing", "is not made while namespace shoot--foo--bar is being deleted"),
		Entry("for the entry even though a place is pinned, where its Secret is gone", row{entry: shootEntry, pinned: `{"provider":"S3","container":"bucket","prefix":"p","secretName":"etcd-backup"}`},
			"BackupEntryNotFound", "does not exist"),
	)

	DescribeTable("refuses, and says what to do",
		func(r row, reason, message string) {
			resolution := backupstore.Resolve(r.question())
			Expect(resolution.Store).To(BeNil())
			Expect(resolution.Refused).To(BeTrue())
			Expect(resolution.Reason).To(Equal(reason))
			Expect(resolution.Message).To(ContainSubstring(message))
		},
		Entry("several entries, which it names", row{cluster: true, entries: seen(entry(shootEntry), entry(otherEntry)), secrets: made("etcd-backup", shootEntry)},
			"StoreInvalid", "more than one BackupEntry ("+shootEntry+", "+otherEntry+"): name one in spec.backup.store.backupEntryRef"),
		Entry("an entry of another namespace", row{namespace: "default", entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry)},
			"StoreInvalid", "lie in namespace shoot--foo--bar"),
		Entry("a prefix that names an entry of another namespace", row{namespace: "default", provider: "aws", container: "bucket", prefix: shootEntry + "/etcd-main", entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry)},
			"StoreInvalid", "lie in namespace shoot--foo--bar"),
		Entry("a published Secret of another namespace", row{entry: shootEntry, entries: seen(entry(shootEntry, publishes("kube-system", "token"))), secrets: made("token", shootEntry)},
			"StoreInvalid", "lie in namespace kube-system"),
		Entry("an entry of another provider", row{provider: "gcp", container: "bucket", entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry)},
			"StoreInvalid", "is of type aws: omit provider and container"),
		Entry("an entry of another bucket", row{provider: "aws", container: "mine", entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry)},
			"StoreInvalid", "is in bucket bucket: omit provider and container"),
		Entry("an entry of a type that snapshots cannot lie in", row{entry: shootEntry, entries: seen(entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.Type = "tape" })), secrets: made("etcd-backup", shootEntry)},
			"StoreInvalid", "no object store"),
		Entry("a store about which nothing is known", row{namespace: "default"},
			"StoreInvalid", "spec.backup.store.provider"),
		Entry("another container than until now", row{entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry), pinned: `{"provider":"S3","container":"before","prefix":"` + shootEntry + `/main"}`},
			"StoreChanged", `snapshots went to S3 container "before"`),
		Entry("another provider than until now", row{entry: shootEntry, entries: seen(entry(shootEntry)), secrets: made("etcd-backup", shootEntry), pinned: `{"provider":"GCS","container":"bucket","prefix":"` + shootEntry + `/main"}`},
			"StoreChanged", "snapshots went to GCS"),
		Entry("another prefix than until now", row{provider: "aws", container: "c", secret: "s", prefix: "after", pinned: `{"provider":"S3","container":"c","prefix":"before"}`},
			"StoreChanged", `prefix "before" until now`),
		Entry("the identity of the infrastructure for a provider that has none", row{namespace: "default", provider: "azure", container: "ccc"},
			"StoreInvalid", "spec.backup.store.secretRef"),
	)
})

var _ = Describe("Pin", func() {
	It("is remembered with the names that were always used", func() {
		text, err := backupstore.RecordFor(backupstore.Store{Provider: "S3", Container: "c", Prefix: "p", SecretName: "s"}).Marshal()
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(Equal(`{"provider":"S3","container":"c","prefix":"p","secretName":"s"}`))
		Expect(state.ParseStore(text)).To(HaveValue(Equal(state.Store{Provider: "S3", Container: "c", Prefix: "p", SecretName: "s"})))
	})

	It("is not guessed where somebody broke it", func() {
		Expect(state.ParseStore("")).To(BeNil())
		_, err := state.ParseStore("broken")
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("Resolve, for what a cluster has already,", func() {
	keeps := func(r row) backupstore.Resolution {
		question := r.question()
		question.Keeps = true

		return backupstore.Resolve(question)
	}
	moved := entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.BucketName = "other" })
	pinned := `{"provider":"S3","container":"bucket","prefix":"p","secretName":"etcd-backup"}`

	It("stays with the place that was used until now, though validation refuses its endpoint by now, and says so", func() {
		question := backupstore.Question{Etcd: &druidv1alpha1.Etcd{}, Keeps: true, Pinned: &state.Store{Provider: "S3", Container: "bucket", Prefix: "p"}}
		question.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
			Provider: new(druidv1alpha1.StorageProvider("aws")), Container: new("bucket"), Prefix: "p", EndpointOverride: new("https://user:password@host"),
			SecretRef: &corev1.SecretReference{Name: "own"},
		}
		resolution := backupstore.Resolve(question)
		Expect(resolution.Store).To(HaveValue(Equal(backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "p", SecretName: "own", EndpointOverride: "https://user:password@host"})))
		Expect(resolution.Message).To(And(ContainSubstring(", as before: "), ContainSubstring("must not have user info"), Not(ContainSubstring("password"))))
		Expect(resolution.Reason).To(Equal("StoreInvalid"), "the condition is False")

		question.Pinned.Container = "other"
		Expect(backupstore.Resolve(question).Store).To(BeNil())
		question.Pinned.Container, question.Keeps = "bucket", false
		Expect(backupstore.Resolve(question).Store).To(BeNil())
	})

	It("stays with the place that was used until now, though it is another one by now, and says so", func() {
		resolution := keeps(row{entry: shootEntry, prefix: "p", entries: seen(moved), secrets: made("etcd-backup", shootEntry), pinned: pinned})
		Expect(resolution.Store).To(HaveValue(Equal(backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "p", SecretName: "etcd-backup"})))
		Expect(resolution.Message).To(And(ContainSubstring(`container "bucket"`), ContainSubstring(", as before: "), ContainSubstring(`container "other"`)))
		Expect(resolution.Reason).To(Equal("StoreChanged"), "the condition is False")
	})

	It("stays resolved while the last operation of the entry failed", func() {
		failing := entry(shootEntry, func(e *etcdcluster.BackupEntry) { e.State = "Error" })
		resolution := keeps(row{entry: shootEntry, prefix: "p", entries: seen(failing), secrets: made("etcd-backup", shootEntry), pinned: pinned})
		Expect(resolution.Store).NotTo(BeNil())
		Expect(resolution.Reason).To(Equal("StoreResolved"))
	})

	It("follows the entry to another Secret of the same place", func() {
		rotated := entry(shootEntry, publishes("shoot--foo--bar", "rotated"))
		resolution := keeps(row{entry: shootEntry, prefix: "p", entries: seen(rotated), secrets: append(made("etcd-backup", shootEntry), made("rotated", shootEntry)...), pinned: pinned})
		Expect(resolution.Store).To(HaveValue(HaveField("SecretName", "rotated")))
		Expect(resolution.Reason).To(Equal("StoreResolved"))
	})

	It("is refused where the credentials are gone", func() {
		Expect(keeps(row{entry: shootEntry, prefix: "p", entries: seen(moved), pinned: `{"provider":"S3","container":"bucket","prefix":"p","secretName":"gone"}`, secrets: made("etcd-backup", shootEntry)})).
			To(And(HaveField("Store", BeNil()), HaveField("Refused", BeTrue()), HaveField("Reason", "StoreChanged")))
	})
})
