// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

type override = func(*druidv1alpha1.Etcd)

var _ = Describe("Canonical", func() {
	DescribeTable("moves the value of a deprecated field to the current field",
		func(deprecated, current override) {
			given := fixture.Etcd(deprecated)
			unchanged := given.DeepCopy()

			canonical, errs := helper.Canonical(given)

			Expect(errs).To(BeEmpty())
			Expect(canonical).To(Equal(fixture.Etcd(current)))
			Expect(given).To(Equal(unchanged), "the argument is not changed")
		},
		Entry("spec.etcd.Quota",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.DeprecatedQuota = quantity("8Gi") },
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Quota = quantity("8Gi") }),
		Entry("spec.etcd.imageRepository and spec.etcd.imageVersion",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Etcd.ImageRepository, e.Spec.Etcd.ImageVersion = new("registry.example/etcd-wrapper"), new("v0.1.0")
			},
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Image = new("registry.example/etcd-wrapper:v0.1.0") }),
		Entry("spec.etcd.imageVersion that is a digest",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Etcd.ImageRepository, e.Spec.Etcd.ImageVersion = new("registry.example/etcd-wrapper"), new("sha256:0a1b")
			},
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Image = new("registry.example/etcd-wrapper@sha256:0a1b") }),
		Entry("spec.etcd.imageVersion that is a tag with a digest",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Etcd.ImageRepository, e.Spec.Etcd.ImageVersion = new("registry.example:5000/etcd-wrapper"), new("v0.1.0@sha256:0a1b")
			},
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Etcd.Image = new("registry.example:5000/etcd-wrapper:v0.1.0@sha256:0a1b")
			}),
		Entry("spec.etcd.initialClusterState, which has no effect",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.InitialClusterState = new("new") },
			func(*druidv1alpha1.Etcd) {}),
		Entry("spec.etcd.initialClusterToken, which stays",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.InitialClusterToken = new("token") },
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.InitialClusterToken = new("token") }),
		Entry("spec.etcd.pullPolicy, which stays",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.PullPolicy = new(corev1.PullAlways) },
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.PullPolicy = new(corev1.PullAlways) }),
		Entry("spec.etcd.storageCapacity",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.StorageCapacity = quantity("80Gi") },
			func(e *druidv1alpha1.Etcd) { e.Spec.StorageCapacity = quantity("80Gi") }),
		Entry("spec.etcd.storageClass",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.StorageClass = new("fast") },
			func(e *druidv1alpha1.Etcd) { e.Spec.StorageClass = new("fast") }),
		Entry("spec.backup.imageRepository and spec.backup.imageVersion",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Backup.ImageRepository, e.Spec.Backup.ImageVersion = new("registry.example/etcdbrctl"), new("v0.25.0")
			},
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Image = new("registry.example/etcdbrctl:v0.25.0") }),
		Entry("spec.backup.snapstoreTempDir, which stays",
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.SnapstoreTempDir = new("/var/etcd/data/tmp") },
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.SnapstoreTempDir = new("/var/etcd/data/tmp") }),
		Entry("spec.store.storageContainer",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StorageContainer: new("bucket")}
			},
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Container: new("bucket")} }),
		Entry("spec.store.storageProvider",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StorageProvider: new(druidv1alpha1.StorageProvider("S3"))}
			},
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("S3"))}
			}),
		Entry("spec.store.storePrefix",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StorePrefix: new("etcd-test")}
			},
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "etcd-test"} }),
		Entry("spec.store.storeSecret",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StoreSecret: new("etcd-backup")}
			},
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{SecretRef: &corev1.SecretReference{Name: "etcd-backup"}}
			}),
		Entry("an empty spec.store, which is no store",
			func(e *druidv1alpha1.Etcd) { e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{} },
			func(*druidv1alpha1.Etcd) {}),
		Entry("spec.tlsServerSecret and spec.tlsClientSecret, with the CA in the server's secret",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.TLSServerSecret, e.Spec.TLSClientSecret = new("server"), new("client")
			},
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
					TLSCASecretRef: druidv1alpha1.SecretReference{
						SecretReference: corev1.SecretReference{Name: "server"}, DataKey: new("ca.crt"),
					},
					ServerTLSSecretRef: corev1.SecretReference{Name: "server"},
					ClientTLSSecretRef: corev1.SecretReference{Name: "client"},
				}
			}),
		Entry("spec.tlsClientSecret alone while TLS is switched off, which has no effect",
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.EnableTLS, e.Spec.TLSClientSecret = new(false), new("client") },
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.EnableTLS = new(false) }),
	)

	DescribeTable("lets pass both forms with the same meaning",
		func(both, current override) {
			canonical, errs := helper.Canonical(fixture.Etcd(both))

			Expect(errs).To(BeEmpty())
			Expect(canonical.Spec).To(Equal(fixture.Etcd(current).Spec))
		},
		Entry("quantities that are written differently",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.StorageCapacity, e.Spec.Etcd.StorageCapacity = quantity("1Gi"), quantity("1073741824")
			},
			func(e *druidv1alpha1.Etcd) { e.Spec.StorageCapacity = quantity("1Gi") }),
		Entry("the same image",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Etcd.Image = new("a/b:c")
				e.Spec.Etcd.ImageRepository, e.Spec.Etcd.ImageVersion = new("a/b"), new("c")
			},
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.Image = new("a/b:c") }),
		Entry("the same prefix",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "p"}
				e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StorePrefix: new("p")}
			},
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "p"} }),
	)

	DescribeTable("refuses both forms with different meanings and names both fields",
		func(both override, deprecatedField, currentField string) {
			_, errs := helper.Canonical(fixture.Etcd(both))

			Expect(errs).To(HaveLen(1))
			Expect(errs[0].Error()).To(And(ContainSubstring(deprecatedField), ContainSubstring(currentField), ContainSubstring("remove")))
		},
		Entry("quota", func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.Quota, e.Spec.Etcd.DeprecatedQuota = quantity("1Gi"), quantity("2Gi")
		},
			"spec.etcd.Quota", "spec.etcd.quota"),
		Entry("storage capacity", func(e *druidv1alpha1.Etcd) {
			e.Spec.StorageCapacity, e.Spec.Etcd.StorageCapacity = quantity("1Gi"), quantity("2Gi")
		}, "spec.etcd.storageCapacity", "spec.storageCapacity"),
		Entry("storage class", func(e *druidv1alpha1.Etcd) { e.Spec.StorageClass, e.Spec.Etcd.StorageClass = new("a"), new("b") },
			"spec.etcd.storageClass", "spec.storageClass"),
		Entry("image of etcd", func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.Image, e.Spec.Etcd.ImageRepository, e.Spec.Etcd.ImageVersion = new("a:1"), new("a"), new("2")
		}, "spec.etcd.imageRepository", "spec.etcd.image"),
		Entry("image of the sidecar", func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.Image, e.Spec.Backup.ImageRepository, e.Spec.Backup.ImageVersion = new("a:1"), new("a"), new("2")
		}, "spec.backup.imageVersion", "spec.backup.image"),
		Entry("container", func(e *druidv1alpha1.Etcd) {
			fixture.WithStore("S3")(e)
			e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StorageContainer: new("other")}
		}, "spec.store.storageContainer", "spec.backup.store.container"),
		Entry("provider", func(e *druidv1alpha1.Etcd) {
			fixture.WithStore("S3")(e)
			e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StorageProvider: new(druidv1alpha1.StorageProvider("GCS"))}
		}, "spec.store.storageProvider", "spec.backup.store.provider"),
		Entry("prefix", func(e *druidv1alpha1.Etcd) {
			fixture.WithStore("S3")(e)
			e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StorePrefix: new("other")}
		}, "spec.store.storePrefix", "spec.backup.store.prefix"),
		Entry("secret of the store", func(e *druidv1alpha1.Etcd) {
			fixture.WithStore("S3")(e)
			e.Spec.Store = &druidv1alpha1.DeprecatedStoreFields{StoreSecret: new("other")}
		}, "spec.store.storeSecret", "spec.backup.store.secretRef.name"),
		Entry("certificate for clients", func(e *druidv1alpha1.Etcd) {
			fixture.WithClientTLS()(e)
			e.Spec.TLSClientSecret = new("other")
		}, "spec.tlsClientSecret", "spec.etcd.clientUrlTls.clientTLSSecretRef.name"),
	)

	It("refuses another server certificate and the CA that goes with it", func() {
		_, errs := helper.Canonical(fixture.Etcd(fixture.WithClientTLS(), func(e *druidv1alpha1.Etcd) {
			e.Spec.TLSServerSecret = new("other")
		}))

		Expect(errs).To(ConsistOf(
			HaveField("Detail", ContainSubstring("spec.etcd.clientUrlTls.serverTLSSecretRef.name")),
			HaveField("Detail", ContainSubstring("spec.etcd.clientUrlTls.tlsCASecretRef.name")),
		))
	})

	DescribeTable("rejects a deprecated field that has no meaning alone",
		func(part override, missing string) {
			_, errs := helper.Canonical(fixture.Etcd(part))

			Expect(errs).To(ConsistOf(HaveField("Field", missing)))
		},
		Entry("a repository", func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.ImageRepository = new("a") }, "spec.etcd.imageVersion"),
		Entry("a version", func(e *druidv1alpha1.Etcd) { e.Spec.Backup.ImageVersion = new("a") }, "spec.backup.imageRepository"),
		Entry("a certificate for clients", func(e *druidv1alpha1.Etcd) { e.Spec.TLSClientSecret = new("a") }, "spec.tlsServerSecret"),
	)

	It("maps itself onto itself", func() {
		etcd := fixture.Etcd(fixture.WithTLS(), fixture.WithStore("S3"))

		canonical, errs := helper.Canonical(etcd)

		Expect(errs).To(BeEmpty())
		Expect(canonical).To(Equal(etcd))
		Expect(canonical).NotTo(BeIdenticalTo(etcd))
	})
})

func quantity(value string) *resource.Quantity { return new(resource.MustParse(value)) }
