// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

var _ = Describe("Canonical", func() {
	DescribeTable("knows every name of a provider, and no other",
		func(canonical backupstore.Provider, names ...druidv1alpha1.StorageProvider) {
			for _, name := range names {
				provider, ok := backupstore.Canonical(name)
				Expect(ok).To(Equal(canonical != ""), string(name))
				Expect(provider).To(Equal(canonical), string(name))
			}
		},
		Entry("S3", backupstore.Provider("S3"), druidv1alpha1.StorageProvider("aws"), druidv1alpha1.StorageProvider("stackit"), druidv1alpha1.StorageProvider("S3"), druidv1alpha1.StorageProvider("s3")),
		Entry("ABS", backupstore.Provider("ABS"), druidv1alpha1.StorageProvider("azure"), druidv1alpha1.StorageProvider("ABS"), druidv1alpha1.StorageProvider("abs")),
		Entry("GCS", backupstore.Provider("GCS"), druidv1alpha1.StorageProvider("gcp"), druidv1alpha1.StorageProvider("GCS"), druidv1alpha1.StorageProvider("gcs")),
		Entry("Swift", backupstore.Provider("Swift"), druidv1alpha1.StorageProvider("openstack"), druidv1alpha1.StorageProvider("Swift"), druidv1alpha1.StorageProvider("swift")),
		Entry("OSS", backupstore.Provider("OSS"), druidv1alpha1.StorageProvider("alicloud"), druidv1alpha1.StorageProvider("OSS"), druidv1alpha1.StorageProvider("oss")),
		Entry("ECS", backupstore.Provider("ECS"), druidv1alpha1.StorageProvider("dell"), druidv1alpha1.StorageProvider("ECS"), druidv1alpha1.StorageProvider("ecs")),
		Entry("OCS", backupstore.Provider("OCS"), druidv1alpha1.StorageProvider("openshift"), druidv1alpha1.StorageProvider("OCS"), druidv1alpha1.StorageProvider("ocs")),
		Entry("Local", backupstore.Provider("Local"), druidv1alpha1.StorageProvider("Local"), druidv1alpha1.StorageProvider("local")),
		Entry("names of another case, and none", backupstore.Provider(""), druidv1alpha1.StorageProvider("AWS"), druidv1alpha1.StorageProvider("LOCAL"), druidv1alpha1.StorageProvider("")),
	)
})

var _ = Describe("FromSpec", func() {
	path := field.NewPath("spec", "backup", "store")
	spec := func(options ...func(*druidv1alpha1.StoreSpec)) druidv1alpha1.StoreSpec {
		spec := druidv1alpha1.StoreSpec{
			Provider:  new(druidv1alpha1.StorageProvider("aws")),
			Container: new("bucket"),
			Prefix:    "some/prefix",
			SecretRef: &corev1.SecretReference{Name: "secret", Namespace: "ignored"},
		}
		for _, option := range options {
			option(&spec)
		}

		return spec
	}

	It("should take every field", func() {
		store, errs := backupstore.FromSpec(spec(func(s *druidv1alpha1.StoreSpec) { s.EndpointOverride = new("https://example.com") }), "ns", "name", path)
		Expect(errs).To(BeEmpty())
		Expect(store).To(Equal(backupstore.Store{Provider: "S3", Container: "bucket", Prefix: "some/prefix", EndpointOverride: "https://example.com", SecretName: "secret"}))
	})

	It("should derive the prefix from namespace and name", func() {
		store, errs := backupstore.FromSpec(spec(func(s *druidv1alpha1.StoreSpec) { s.Prefix = "" }), "ns", "name", path)
		Expect(errs).To(BeEmpty())
		Expect(store.Prefix).To(Equal("ns/name"))
	})

	DescribeTable("needs no Secret if the infrastructure provides an identity",
		func(provider string, needed bool) {
			_, errs := backupstore.FromSpec(spec(func(s *druidv1alpha1.StoreSpec) {
				s.Provider, s.SecretRef = new(druidv1alpha1.StorageProvider(provider)), nil
			}), "ns", "name", path)
			if needed {
				Expect(errs.ToAggregate()).To(MatchError(ContainSubstring("spec.backup.store.secretRef: Required value: set a Secret")))
			} else {
				Expect(errs).To(BeEmpty())
			}
		},
		Entry("S3", "aws", false), Entry("GCS", "gcp", false), Entry("Local", "Local", false),
		Entry("ABS", "azure", true), Entry("Swift", "openstack", true), Entry("OSS", "alicloud", true),
		Entry("ECS", "dell", true), Entry("OCS", "openshift", true),
	)

	DescribeTable("refusals name the field and the remedy",
		func(option func(*druidv1alpha1.StoreSpec), message string) {
			_, errs := backupstore.FromSpec(spec(option), "ns", "name", path)
			Expect(errs.ToAggregate()).To(MatchError(ContainSubstring(message)))
			Expect(errs.ToAggregate()).NotTo(MatchError(ContainSubstring("hunter2")))
		},
		Entry("no provider", func(s *druidv1alpha1.StoreSpec) { s.Provider = nil }, "spec.backup.store.provider: Required value"),
		Entry("an empty provider", func(s *druidv1alpha1.StoreSpec) { s.Provider = new(druidv1alpha1.StorageProvider("")) }, "spec.backup.store.provider: Required value"),
		Entry("an unknown provider", func(s *druidv1alpha1.StoreSpec) { s.Provider = new(druidv1alpha1.StorageProvider("ftp")) }, "set one of ABS, ECS, GCS"),
		Entry("an endpoint with user info", func(s *druidv1alpha1.StoreSpec) { s.EndpointOverride = new("https://user:hunter2@s3.example.com") }, "spec.backup.store.endpointOverride: Forbidden: must not have user info: remove what is before the @ of the host, and put credentials into the Secret in spec.backup.store.secretRef"),
		Entry("an endpoint with user info that is not valid", func(s *druidv1alpha1.StoreSpec) { s.EndpointOverride = new("https://us%er:hunter2@s3.example.com") }, "spec.backup.store.endpointOverride: Forbidden: must not have user info"),
		Entry("no container", func(s *druidv1alpha1.StoreSpec) { s.Container = nil }, "spec.backup.store.container: Required value"),
		Entry("no container of a Local store, whose snapshots would be deleted with the pod", func(s *druidv1alpha1.StoreSpec) {
			s.Provider, s.Container = new(druidv1alpha1.StorageProvider("Local")), nil
		}, "spec.backup.store.container: Required value"),
	)
})

var _ = Describe("What a container needs", func() {
	names := backupstore.VolumeNames{Credentials: "credentials", Local: "local"}
	store := func(provider backupstore.Provider) backupstore.Store {
		return backupstore.Store{Provider: provider, Container: "bucket", Prefix: "prefix", SecretName: "secret"}
	}

	DescribeTable("credentials",
		func(provider backupstore.Provider, side backupstore.Side, variable, value, mountPath string) {
			s := store(provider)
			prefix := map[backupstore.Side]string{backupstore.Primary: "", backupstore.Source: "SOURCE_"}[side]
			Expect(s.Environment(side)).To(Equal([]corev1.EnvVar{
				{Name: prefix + "STORAGE_CONTAINER", Value: "bucket"}, {Name: variable, Value: value},
			}))
			mount := s.Mount(side, names, "/home/nonroot")
			Expect(mount.Volume.Name).To(Equal("credentials"))
			Expect(mount.Volume.Secret).To(HaveValue(Equal(corev1.SecretVolumeSource{SecretName: "secret", DefaultMode: new(int32(0o640))})))
			Expect(mount.VolumeMount).To(Equal(corev1.VolumeMount{Name: "credentials", MountPath: mountPath}))

			s.SecretName = ""
			Expect(s.Environment(side)).To(HaveLen(1), "no path of credentials that are not there")
			Expect(s.Mount(side, names, "/home/nonroot")).To(BeNil())
		},
		Entry("S3", backupstore.ProviderS3, backupstore.Primary, "AWS_APPLICATION_CREDENTIALS", "/var/etcd-backup", "/var/etcd-backup"),
		Entry("ABS", backupstore.ProviderABS, backupstore.Primary, "AZURE_APPLICATION_CREDENTIALS", "/var/etcd-backup", "/var/etcd-backup"),
		Entry("GCS", backupstore.ProviderGCS, backupstore.Primary, "GOOGLE_APPLICATION_CREDENTIALS", "/var/.gcp/serviceaccount.json", "/var/.gcp"),
		Entry("Swift", backupstore.ProviderSwift, backupstore.Primary, "OPENSTACK_APPLICATION_CREDENTIALS", "/var/etcd-backup", "/var/etcd-backup"),
		Entry("OSS", backupstore.ProviderOSS, backupstore.Primary, "ALICLOUD_APPLICATION_CREDENTIALS", "/var/etcd-backup", "/var/etcd-backup"),
		Entry("OCS", backupstore.ProviderOCS, backupstore.Primary, "OPENSHIFT_APPLICATION_CREDENTIALS", "/var/etcd-backup", "/var/etcd-backup"),
		Entry("S3 as the source of copies", backupstore.ProviderS3, backupstore.Source, "SOURCE_AWS_APPLICATION_CREDENTIALS", "/var/source-etcd-backup", "/var/source-etcd-backup"),
		Entry("GCS as the source of copies", backupstore.ProviderGCS, backupstore.Source, "SOURCE_GOOGLE_APPLICATION_CREDENTIALS", "/var/.source-gcp/serviceaccount.json", "/var/.source-gcp"),
	)

	DescribeTable("the credentials of ECS come from the Secret by key, and nothing is mounted",
		func(side backupstore.Side, container string) {
			s := store(backupstore.ProviderECS)
			fromSecret := func(name, key string) corev1.EnvVar {
				return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}, Key: key,
				}}}
			}
			Expect(s.Environment(side)).To(Equal([]corev1.EnvVar{
				{Name: container, Value: "bucket"},
				fromSecret("ECS_ENDPOINT", "endpoint"), fromSecret("ECS_ACCESS_KEY_ID", "accessKeyID"), fromSecret("ECS_SECRET_ACCESS_KEY", "secretAccessKey"),
			}))
			Expect(s.Mount(side, names, "/home/nonroot")).To(BeNil())
		},
		Entry("for snapshots", backupstore.Primary, "STORAGE_CONTAINER"),
		Entry("for the source of copies, by the same variables", backupstore.Source, "SOURCE_STORAGE_CONTAINER"),
	)

	DescribeTable("the directory of a Local store",
		func(hostPath, expected string) {
			s := store(backupstore.ProviderLocal)
			s.HostPath = hostPath
			mount := s.Mount(backupstore.Primary, names, "/root")
			Expect(mount.Volume).To(Equal(corev1.Volume{Name: "local", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: expected, Type: new(corev1.HostPathDirectoryOrCreate)},
			}}))
			Expect(mount.VolumeMount).To(Equal(corev1.VolumeMount{Name: "local", MountPath: "/root/bucket"}))
			Expect(s.Environment(backupstore.Primary)).To(Equal([]corev1.EnvVar{{Name: "STORAGE_CONTAINER", Value: "bucket"}}))
		},
		Entry("is in the default directory", "", "/etc/gardener/local-backupbuckets/bucket"),
		Entry("is in the directory of the Secret", "/mnt/backups/", "/mnt/backups/bucket"),
	)

	It("should name the store by flags, and the endpoint only if there is an override", func() {
		s := store(backupstore.ProviderS3)
		Expect(s.Flags(backupstore.Primary)).To(Equal([]string{"--storage-provider=S3", "--store-prefix=prefix"}))
		Expect(s.ContainerFlag(backupstore.Primary)).To(Equal("--store-container=bucket"))
		s.EndpointOverride = "https://example.com"
		Expect(s.Flags(backupstore.Source)).To(Equal([]string{"--source-storage-provider=S3", "--source-store-prefix=prefix", "--source-store-endpoint-override=https://example.com"}))
		Expect(s.ContainerFlag(backupstore.Source)).To(Equal("--source-store-container=bucket"))
	})
})
