// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/test/provider"
)

// ApplyCluster labels the namespace and writes its Cluster like gardenlet, with this phase of the CA rotation of the shoot. The
// webhooks of gardener-resource-manager then apply to the namespace. The cleanup deletes the Cluster.
func (ns *TestNamespace) ApplyCluster(ctx context.Context, phase gardencorev1beta1.CredentialsRotationPhase, initiatedAt *time.Time) {
	GinkgoHelper()
	requireSeed()
	ns.labelAsShoot(ctx)

	shoot := &gardencorev1beta1.Shoot{TypeMeta: metav1.TypeMeta{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot"}}
	if initiatedAt != nil {
		shoot.Status.Credentials = &gardencorev1beta1.ShootCredentials{Rotation: &gardencorev1beta1.ShootCredentialsRotation{
			CertificateAuthorities: &gardencorev1beta1.CARotation{Phase: phase, LastInitiationTime: &metav1.Time{Time: *initiatedAt}},
		}}
	}

	raw, err := json.Marshal(shoot)
	Expect(err).NotTo(HaveOccurred())

	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, ns.Client, cluster, func() error {
		cluster.Spec.CloudProfile = runtime.RawExtension{Raw: []byte(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"CloudProfile"}`)}
		cluster.Spec.Seed = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Seed"}`)}
		cluster.Spec.Shoot = runtime.RawExtension{Raw: raw}

		return nil
	})
	Expect(err).NotTo(HaveOccurred())

	if result == controllerutil.OperationResultCreated {
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(ns.Client.Delete(ctx, cluster))).To(Succeed()) })
	}
}

// zones are the zones of the local seed.
var zones = []string{"zone-n1", "zone-n2", "zone-n3"}

// labelAsShoot sets the metadata that gardenlet sets on the namespace of a shoot which tolerates the failure of a zone.
func (ns *TestNamespace) labelAsShoot(ctx context.Context) {
	GinkgoHelper()

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
	_, err := controllerutil.CreateOrPatch(ctx, ns.Client, namespace, func() error {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, v1beta1constants.GardenRole, v1beta1constants.GardenRoleShoot)
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, resourcesv1alpha1.HighAvailabilityConfigConsider, "true")
		metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, resourcesv1alpha1.HighAvailabilityConfigFailureToleranceType, string(gardencorev1beta1.FailureToleranceTypeZone))
		metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, resourcesv1alpha1.HighAvailabilityConfigZones, strings.Join(zones, ","))

		return nil
	})
	Expect(err).NotTo(HaveOccurred())
}

// Delete deletes an object unless it is gone. It confirms the deletion, as gardener-resource-manager requires it for the kinds of Gardener
// and for the Etcds of shoots.
func (f *Framework) Delete(ctx context.Context, object client.Object) error {
	if err := gardenerutils.ConfirmDeletion(ctx, f.Client, object); err != nil {
		return client.IgnoreNotFound(err)
	}

	return client.IgnoreNotFound(f.Client.Delete(ctx, object))
}

// CreateBackupEntry creates a BackupBucket and a BackupEntry like gardenlet, and returns the name of the entry. The
// bucket is the directory of the namespace in the Local store. The controllers of the provider extension run in this
// process until the test ends.
func (ns *TestNamespace) CreateBackupEntry(ctx context.Context) string {
	GinkgoHelper()
	requireSeed()
	ns.startProvider()

	name := ns.Name + "--" + string(uuid.NewUUID())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "entry"}}
	reference := corev1.SecretReference{Namespace: secret.Namespace, Name: secret.Name}
	bucket := &extensionsv1alpha1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}, Spec: extensionsv1alpha1.BackupBucketSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: provider.Type}, Region: "local", SecretRef: reference,
	}}
	entry := &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: extensionsv1alpha1.BackupEntrySpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: provider.Type}, Region: "local", BucketName: bucket.Name, SecretRef: reference,
	}}

	for _, object := range []client.Object{secret, bucket, entry} {
		Expect(ns.Client.Create(ctx, object)).To(Succeed())
	}

	DeferCleanup(func(ctx SpecContext) {
		for _, object := range []client.Object{entry, bucket} {
			Expect(ns.Delete(ctx, object)).To(Succeed())
			Eventually(func() bool { return ns.IsGone(ctx, object) }).WithContext(ctx).WithTimeout(ReadyTimeout).WithPolling(PollInterval).Should(BeTrue(), ns.State)
		}
	})

	return name
}

func (ns *TestNamespace) startProvider() {
	GinkgoHelper()

	mgr, err := manager.New(ns.Config, manager.Options{
		Scheme:  ns.Client.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(provider.AddToManager(mgr, provider.Options{HostPath: "/etc/gardener/local-backupbuckets", Controller: controller.Options{SkipNameValidation: new(true)}})).To(Succeed())

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})

	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
}
