// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

var _ = Describe("Observer of Gardener", func() {
	const uid = "--11111111-2222-3333-4444-555555555555"
	var (
		ctx     = context.Background()
		etcd    *druidv1alpha1.Etcd
		objects []client.Object
	)

	BeforeEach(func() {
		etcd, objects = &druidv1alpha1.Etcd{}, nil
		etcd.Name, etcd.Namespace = "main", "shoot--foo"
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{}
	})

	observe := func(gardener bool) etcdcluster.Observation {
		GinkgoHelper()
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, resourcesv1alpha1.AddToScheme, extensionsv1alpha1.AddToScheme, operatorv1alpha1.AddToScheme} {
			Expect(add(scheme)).To(Succeed())
		}
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
			WithIndex(&extensionsv1alpha1.BackupEntry{}, observer.BackupEntryIndex, observer.IndexBackupEntry).Build()
		observed := (&observer.Observer{Reader: c, APIReader: c, Gardener: gardener, Garden: gardener}).Observe(ctx, etcd, observer.Request{Gardener: true})
		Expect(observed.Failures).To(BeEmpty())

		unindexed := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
		listed := (&observer.Observer{Reader: unindexed, APIReader: unindexed, Gardener: gardener, Garden: gardener, Unindexed: true}).Observe(ctx, etcd, observer.Request{Gardener: true})
		Expect(listed).To(Equal(observed), "an API server has no index")

		return observed
	}
	entry := func(name string) *extensionsv1alpha1.BackupEntry {
		return &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2}, Spec: extensionsv1alpha1.BackupEntrySpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "aws"}, BucketName: "bucket",
		}}
	}
	secret := func(name string, annotations, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--foo", Name: name, Annotations: annotations, Labels: labels}}
	}

	It("reads nothing outside of Gardener", func() {
		objects = append(objects, entry("shoot--foo"+uid))
		Expect(observe(false).Gardener).To(Equal(etcdcluster.Gardener{}))
	})

	It("reads the rotation of CAs from the shoot in the Cluster", func() {
		objects = append(objects, &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shoot--foo"}, Spec: extensionsv1alpha1.ClusterSpec{
			Shoot: runtime.RawExtension{Raw: []byte(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot","status":{"credentials":{"rotation":{"certificateAuthorities":{"phase":"Preparing","lastInitiationTime":"2026-05-04T03:02:01Z"}}}}}`)},
		}})
		Expect(observe(true).Gardener.Cluster).To(HaveValue(Equal(etcdcluster.CARotation{Phase: "Preparing", InitiatedAt: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)})))
	})

	It("distinguishes a Cluster without a rotation from no Cluster", func() {
		objects = append(objects, &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shoot--foo"}})
		Expect(observe(true).Gardener.Cluster).To(HaveValue(Equal(etcdcluster.CARotation{})))
	})

	It("reads the rotation of CAs from the Garden in its namespace, and nowhere else", func() {
		garden := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "garden"}}
		garden.Status.Credentials = &operatorv1alpha1.Credentials{Rotation: &operatorv1alpha1.CredentialsRotation{CertificateAuthorities: &gardencorev1beta1.CARotation{Phase: "Prepared"}}}
		objects = append(objects, garden)
		Expect(observe(true).Gardener.Garden).To(BeNil())
		etcd.Namespace = "garden"
		Expect(observe(true).Gardener.Garden).To(HaveValue(Equal(etcdcluster.CARotation{Phase: "Prepared"})))
	})

	It("reads the entries of the namespace and the one that is named, and their Secrets", func() {
		own, named, other := entry("shoot--foo"+uid), entry("custom"), entry("shoot--bar"+uid)
		own.Status.ObservedGeneration = 2
		own.Status.LastOperation = &gardencorev1beta1.LastOperation{State: "Succeeded"}
		named.Status.LastError = &gardencorev1beta1.LastError{Description: "no such bucket"}
		named.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"secretRef":{"name":"published","namespace":"shoot--foo"}}`)}
		etcd.Spec.Backup.Store.BackupEntryRef = &druidv1alpha1.BackupEntryReference{Name: "custom"}
		objects = append(objects, own, named, other,
			secret("etcd-backup", map[string]string{"backup.gardener.cloud/created-by": own.Name}, nil), secret("published", nil, nil), secret("unrelated", nil, nil))

		Expect(observe(true).Gardener).To(Equal(etcdcluster.Gardener{
			BackupEntries: []etcdcluster.BackupEntry{
				{Name: "custom", Namespace: "custom", Type: "aws", BucketName: "bucket", Message: "no such bucket", PublishedSecret: &corev1.SecretReference{Namespace: "shoot--foo", Name: "published"}},
				{Name: own.Name, Namespace: "shoot--foo", Type: "aws", BucketName: "bucket", GenerationObserved: true, State: "Succeeded"},
			},
			StoreSecrets: []etcdcluster.StoreSecret{{Name: "etcd-backup", CreatedBy: own.Name}, {Name: "published"}},
		}))
	})

	It("takes what a provider writes into the status for no Secret unless it is one", func() {
		own := entry("shoot--foo" + uid)
		own.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"secretRef":"mine"}`)}
		objects = append(objects, own)
		Expect(observe(true).Gardener.BackupEntries[0].PublishedSecret).To(BeNil())
	})

	It("says that the namespace goes where a Secret is missing", func() {
		objects = append(objects, entry("shoot--foo"+uid), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shoot--foo", DeletionTimestamp: &metav1.Time{Time: time.Now()}, Finalizers: []string{"kubernetes"}}})
		Expect(observe(true).Gardener.NamespaceTerminating).To(BeTrue())
	})

	It("reads the Secrets that are issued for the Etcd, and none of another", func() {
		labels := func(identity string) map[string]string {
			return map[string]string{"managed-by": "secrets-manager", "manager-identity": identity, "name": "main-client-ca", "last-rotation-initiation-time": "1777863721", "issued-at-time": "1777863720", "valid-until-time": ""}
		}
		objects = append(objects, secret("main-client-ca-1", nil, labels("etcd-druid-main")), secret("other", nil, labels("etcd-druid-other")))
		Expect(observe(false).Issued).To(Equal([]etcdcluster.IssuedSecret{{
			Name: "main-client-ca-1", ConfigName: "main-client-ca",
			RotationStartedAt: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), NotBefore: time.Date(2026, 5, 4, 3, 2, 0, 0, time.UTC),
		}}))
	})
})
