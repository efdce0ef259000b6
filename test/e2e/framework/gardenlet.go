// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component"
	"github.com/gardener/gardener/pkg/component/autoscaling/vpa"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/component/observability/monitoring/prometheusoperator"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Gardenlet contains the client and the secrets manager that the components of gardenlet need in the namespace of a shoot.
type Gardenlet struct {
	// Client uses the API types of etcd-druid for the kinds of the operator.
	Client client.Client
	// Secrets manages the CAs of etcd.
	Secrets secretsmanager.Interface

	namespace string
}

// NewGardenlet creates the prerequisites of gardenlet on a seed: CustomResourceDefinitions, a PriorityClass, and the CAs in the
// namespace. The cleanup keeps the CustomResourceDefinitions and the PriorityClass, because other tests may use them.
func (ns *TestNamespace) NewGardenlet(ctx context.Context) *Gardenlet {
	GinkgoHelper()

	seedClient, err := client.New(ns.Config, client.Options{Scheme: kubernetes.SeedScheme})
	Expect(err).NotTo(HaveOccurred())
	monitoring, err := prometheusoperator.NewCRDs(seedClient)
	Expect(err).NotTo(HaveOccurred())
	autoscaling, err := vpa.NewCRD(seedClient, nil)
	Expect(err).NotTo(HaveOccurred())

	for _, crds := range []component.DeployWaiter{monitoring, autoscaling} {
		// Another test may write them at the same time.
		Eventually(crds.Deploy).WithArguments(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval).Should(Succeed())
		Expect(crds.Wait(ctx)).To(Succeed())
	}

	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gardener-system-500"}, Value: 999998500}
	Expect(client.IgnoreAlreadyExists(ns.Client.Create(ctx, class))).To(Succeed())

	gardenlet := &Gardenlet{Client: seedClient, namespace: ns.Name}
	gardenlet.generateCAs(ctx, nil)

	return gardenlet
}

// EtcdDruid is the name of the Deployment of the etcd-druid that gardenlet installs, and of its ManagedResource.
var EtcdDruid = client.ObjectKey{Namespace: "garden", Name: "etcd-druid"}

// InstallEtcdDruid installs etcd-druid like gardenlet, with an image and an image vector overwrite. A nil overwrite means none. Another
// call changes the installation. The cleanup deletes it.
func (g *Gardenlet) InstallEtcdDruid(ctx context.Context, image string, imageVector *string) component.DeployWaiter {
	GinkgoHelper()

	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gardener-system-800"}, Value: 999998800}
	Expect(client.IgnoreAlreadyExists(g.Client.Create(ctx, class))).To(Succeed())

	class = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gardener-system-900"}, Value: 999998900}
	Expect(client.IgnoreAlreadyExists(g.Client.Create(ctx, class))).To(Succeed())

	manager, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, g.Client, "gardenlet", secretsmanager.WithNamespaces("garden"))
	Expect(err).NotTo(HaveOccurred())
	_, err = manager.Generate(ctx, &secretsutils.CertificateSecretConfig{Name: "ca-seed", CommonName: "ca-seed", CertType: secretsutils.CACert})
	Expect(err).NotTo(HaveOccurred())

	config := &gardenletconfigv1alpha1.ETCDConfig{ETCDController: &gardenletconfigv1alpha1.ETCDController{}, BackupCompactionController: &gardenletconfigv1alpha1.BackupCompactionController{}}
	gardenletconfigv1alpha1.SetDefaults_ETCDConfig(config)
	gardenletconfigv1alpha1.SetDefaults_ETCDController(config.ETCDController)
	gardenletconfigv1alpha1.SetDefaults_BackupCompactionController(config.BackupCompactionController)

	druid := gardeneretcd.NewBootstrapper(g.Client, "garden", config, image, imageVector, manager, "ca-seed", class.Name, false, false)
	Expect(druid.Deploy(ctx)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(managedresources.DeleteForSeed(ctx, g.Client, EtcdDruid.Namespace, EtcdDruid.Name)).To(Succeed())
		Expect(managedresources.WaitUntilDeleted(ctx, g.Client, EtcdDruid.Namespace, EtcdDruid.Name)).To(Succeed())
	})

	return druid
}

// RotatePeerCA starts the rotation of the peer CA, like gardenlet for a shoot in the phase Preparing.
func (g *Gardenlet) RotatePeerCA(ctx context.Context) {
	GinkgoHelper()
	g.generateCAs(ctx, map[string]time.Time{"ca-etcd-peer": time.Now()})
}

// generateCAs creates a secrets manager and the CAs. It generates a new CA for each name in rotated, which maps names
// to the time at which the rotation started.
func (g *Gardenlet) generateCAs(ctx context.Context, rotated map[string]time.Time) {
	GinkgoHelper()

	manager, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, g.Client, "gardenlet", secretsmanager.WithNamespaces(g.namespace), secretsmanager.WithSecretNamesToTimes(rotated))
	Expect(err).NotTo(HaveOccurred())

	for _, name := range []string{"ca-etcd", "ca-etcd-peer"} {
		config := &secretsutils.CertificateSecretConfig{Name: name, CommonName: name, CertType: secretsutils.CACert}
		_, err := manager.Generate(ctx, config, secretsmanager.Persist(), secretsmanager.Rotate(secretsmanager.KeepOld))
		Expect(err).NotTo(HaveOccurred())
	}

	g.Secrets = manager
}

// MountedSecrets returns the Secrets that the pods of the Etcd mount, in the order of the members. Each map has the
// names of the volumes as keys.
func (ns *TestNamespace) MountedSecrets(ctx context.Context, etcd *druidv1alpha1.Etcd) []map[string]string {
	GinkgoHelper()

	var mounted []map[string]string

	for ordinal := range int(etcd.Spec.Replicas) {
		pod := &corev1.Pod{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: fmt.Sprintf("%s-%d", etcd.Name, ordinal)}, pod)).To(Succeed())

		volumes := map[string]string{}
		for _, volume := range pod.Spec.Volumes {
			if volume.Secret != nil {
				volumes[volume.Name] = volume.Secret.SecretName
			}
		}

		mounted = append(mounted, volumes)
	}

	return mounted
}

// Connection returns the client configuration of a kube-apiserver for an Etcd that was deployed with these secrets.
func (g *Gardenlet) Connection(etcd *druidv1alpha1.Etcd) *tls.Config {
	GinkgoHelper()

	ca, found := g.Secrets.Get("ca-etcd")
	Expect(found).To(BeTrue())
	leaf, found := g.Secrets.Get("etcd-client")
	Expect(found).To(BeTrue())
	certificate, err := tls.X509KeyPair(leaf.Data["tls.crt"], leaf.Data["tls.key"])
	Expect(err).NotTo(HaveOccurred())

	config := &tls.Config{ServerName: etcd.Name + "-client", RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	Expect(config.RootCAs.AppendCertsFromPEM(ca.Data["bundle.crt"])).To(BeTrue())

	return config
}

// EventuallySecret waits until the Secret exists in the namespace.
func (ns *TestNamespace) EventuallySecret(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func() error {
		return ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, &corev1.Secret{})
	}).WithContext(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval).Should(Succeed())
}

// ClaimUIDs returns the UIDs of the PersistentVolumeClaims in the namespace by their names.
func (ns *TestNamespace) ClaimUIDs(ctx context.Context) map[string]types.UID {
	GinkgoHelper()

	claims := &corev1.PersistentVolumeClaimList{}
	Expect(ns.Client.List(ctx, claims, client.InNamespace(ns.Name))).To(Succeed())

	uids := map[string]types.UID{}
	for _, claim := range claims.Items {
		uids[claim.Name] = claim.UID
	}

	return uids
}
