// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

var _ = Describe("Copy", func() {
	const home = "/home/nonroot"

	store := func(provider backupstore.Provider, container, secret string) backupstore.Store {
		return backupstore.Store{Provider: provider, Container: container, Prefix: "prefix", SecretName: secret}
	}
	names := func(environment []corev1.EnvVar) []string {
		var all []string
		for _, variable := range environment {
			all = append(all, variable.Name)
		}

		return all
	}
	paths := func(mounts []backupstore.Mount) map[string]string {
		all := map[string]string{}
		for _, mount := range mounts {
			Expect(mount.VolumeMount.Name).To(Equal(mount.Volume.Name))
			all[mount.Volume.Name] = mount.VolumeMount.MountPath
		}

		return all
	}

	DescribeTable("sets the credentials of each provider on both sides",
		func(provider backupstore.Provider, variable, sourcePath, targetPath string) {
			c := backupstore.Copy{Source: store(provider, "from", "source-secret"), Target: store(provider, "to", "target-secret"), Home: home}
			Expect(c.Validate(field.NewPath("s"), field.NewPath("t"))).To(BeEmpty())
			Expect(names(c.Environment())).To(ConsistOf("STORAGE_CONTAINER", "SOURCE_STORAGE_CONTAINER", variable, "SOURCE_"+variable))
			Expect(paths(c.Mounts())).To(Equal(map[string]string{"etcd-backup-secret": targetPath, "source-etcd-backup-secret": sourcePath}))
			Expect(c.Flags()).To(ConsistOf(
				"--storage-provider="+string(provider), "--store-prefix=prefix", "--store-container=to",
				"--source-storage-provider="+string(provider), "--source-store-prefix=prefix", "--source-store-container=from"))
		},
		Entry("S3", backupstore.ProviderS3, "AWS_APPLICATION_CREDENTIALS", "/var/source-etcd-backup", "/var/etcd-backup"),
		Entry("ABS", backupstore.ProviderABS, "AZURE_APPLICATION_CREDENTIALS", "/var/source-etcd-backup", "/var/etcd-backup"),
		Entry("GCS", backupstore.ProviderGCS, "GOOGLE_APPLICATION_CREDENTIALS", "/var/.source-gcp", "/var/.gcp"),
		Entry("Swift", backupstore.ProviderSwift, "OPENSTACK_APPLICATION_CREDENTIALS", "/var/source-etcd-backup", "/var/etcd-backup"),
		Entry("OSS", backupstore.ProviderOSS, "ALICLOUD_APPLICATION_CREDENTIALS", "/var/source-etcd-backup", "/var/etcd-backup"),
		Entry("OCS", backupstore.ProviderOCS, "OPENSHIFT_APPLICATION_CREDENTIALS", "/var/source-etcd-backup", "/var/etcd-backup"),
	)

	It("sets the shared credentials of ECS once", func() {
		c := backupstore.Copy{Source: store(backupstore.ProviderECS, "from", "secret"), Target: store(backupstore.ProviderECS, "to", "secret"), Home: home}
		Expect(c.Validate(field.NewPath("s"), field.NewPath("t"))).To(BeEmpty())
		Expect(names(c.Environment())).To(ConsistOf("STORAGE_CONTAINER", "SOURCE_STORAGE_CONTAINER", "ECS_ENDPOINT", "ECS_ACCESS_KEY_ID", "ECS_SECRET_ACCESS_KEY"))
		Expect(c.Mounts()).To(BeEmpty())
	})

	It("takes credentials of one side only where the other has none", func() {
		c := backupstore.Copy{Source: store(backupstore.ProviderS3, "from", ""), Target: store(backupstore.ProviderGCS, "to", ""), Home: home}
		Expect(c.Validate(field.NewPath("s"), field.NewPath("t"))).To(BeEmpty())
		Expect(names(c.Environment())).To(ConsistOf("STORAGE_CONTAINER", "SOURCE_STORAGE_CONTAINER"))
		Expect(c.Mounts()).To(BeEmpty())
	})

	DescribeTable("Local stores",
		func(c backupstore.Copy, mounts map[string]string, sourceContainer string) {
			c.Home = home
			Expect(c.Validate(field.NewPath("s"), field.NewPath("t"))).To(BeEmpty())
			Expect(paths(c.Mounts())).To(Equal(mounts))
			Expect(c.Flags()).To(ContainElement("--source-store-container=" + sourceContainer))
			Expect(c.Environment()).To(ContainElement(corev1.EnvVar{Name: "SOURCE_STORAGE_CONTAINER", Value: sourceContainer}))
			Expect(c.TargetDirectory()).To(Equal("/home/nonroot/to"))
		},
		Entry("are mounted by their containers", backupstore.Copy{Source: store("Local", "from", ""), Target: store("Local", "to", "")},
			map[string]string{"host-storage": "/home/nonroot/to", "source-host-storage": "/home/nonroot/from"}, "from"),
		Entry("in one container are mounted once", backupstore.Copy{Source: store("Local", "to", ""), Target: backupstore.Store{Provider: "Local", Container: "to", Prefix: "other"}},
			map[string]string{"host-storage": "/home/nonroot/to"}, "to"),
		Entry("with containers of one name in two directories are mounted next to each other", backupstore.Copy{Source: backupstore.Store{Provider: "Local", Container: "to", HostPath: "/mnt/old"}, Target: store("Local", "to", "")},
			map[string]string{"host-storage": "/home/nonroot/to", "source-host-storage": "/home/nonroot/source/to"}, "source/to"),
		Entry("can be the target of another provider", backupstore.Copy{Source: store("S3", "from", "secret"), Target: store("Local", "to", "")},
			map[string]string{"host-storage": "/home/nonroot/to", "source-etcd-backup-secret": "/var/source-etcd-backup"}, "from"),
	)

	DescribeTable("refuses unsupported combinations, naming the field and the remedy",
		func(c backupstore.Copy, message string) {
			Expect(c.Validate(field.NewPath("spec", "sourceStore"), field.NewPath("spec", "targetStore")).ToAggregate()).To(MatchError(ContainSubstring(message)))
		},
		Entry("GCS as the source without a Secret", backupstore.Copy{Source: store("GCS", "from", ""), Target: store("GCS", "to", "secret")}, "spec.sourceStore.secretRef: Required value: set a Secret"),
		Entry("two sets of credentials for ECS", backupstore.Copy{Source: store("ECS", "from", "one"), Target: store("ECS", "to", "two")}, "name the same Secret as in spec.targetStore.secretRef.name"),
		Entry("a copy onto itself", backupstore.Copy{Source: store("S3", "bucket", "secret"), Target: store("S3", "bucket", "secret")}, "spec.targetStore: Invalid value: \"bucket/prefix\": is the source itself"),
	)
})
