// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

var etcdDruid = client.ObjectKey{Namespace: "garden", Name: "etcd-druid"}

// bootstrap installs etcd-druid with the code of gardenlet, and returns its Deployment.
func bootstrap(ctx context.Context) *appsv1.Deployment {
	GinkgoHelper()

	seed, err := client.New(env.Config, client.Options{Scheme: kubernetes.SeedScheme})
	Expect(err).NotTo(HaveOccurred())
	manager, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, seed, "gardenlet", secretsmanager.WithNamespaces("garden"))
	Expect(err).NotTo(HaveOccurred())
	_, err = manager.Generate(ctx, &secretsutils.CertificateSecretConfig{Name: "ca-seed", CommonName: "ca-seed", CertType: secretsutils.CACert})
	Expect(err).NotTo(HaveOccurred())

	config := &gardenletconfigv1alpha1.ETCDConfig{}
	gardenletconfigv1alpha1.SetDefaults_ETCDConfig(config)
	config.ETCDController, config.BackupCompactionController = &gardenletconfigv1alpha1.ETCDController{}, &gardenletconfigv1alpha1.BackupCompactionController{}
	gardenletconfigv1alpha1.SetDefaults_ETCDController(config.ETCDController)
	gardenletconfigv1alpha1.SetDefaults_BackupCompactionController(config.BackupCompactionController)

	component := gardeneretcd.NewBootstrapper(seed, "garden", config, "registry.example.com/gardener-extension-etcd-druid:v1", nil, manager, "ca-seed", "system-cluster-critical", false, false)
	Expect(component.Deploy(ctx)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		// The resource manager would wait for the garbage collector, which does not run here.
		Expect(managedresources.SetKeepObjects(ctx, env.Client, etcdDruid.Namespace, etcdDruid.Name, true)).To(Succeed())
		Expect(managedresources.DeleteForSeed(ctx, env.Client, etcdDruid.Namespace, etcdDruid.Name)).To(Succeed())
		Expect(managedresources.WaitUntilDeleted(ctx, env.Client, etcdDruid.Namespace, etcdDruid.Name)).To(Succeed())
		for _, object := range []client.Object{
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: etcdDruid.Namespace, Name: etcdDruid.Name}},
			webhooks(),
		} {
			Expect(client.IgnoreNotFound(env.Client.Delete(ctx, object))).To(Succeed())
		}
	})

	deployment := &appsv1.Deployment{}
	Eventually(func() error { return env.Client.Get(ctx, etcdDruid, deployment) }).Should(Succeed())
	Eventually(func() error { return env.Client.Get(ctx, client.ObjectKey{Name: etcdDruid.Name}, webhooks()) }).Should(Succeed())

	return deployment
}

func webhooks() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: etcdDruid.Name}}
}

// runAsEtcdDruid starts the operator with the arguments, files and ServiceAccount of the Deployment. Folders and addresses differ,
// because the operator does not run in a container. The API server calls the webhook of gardenlet at the address of the operator. It
// returns the URL of the metrics server.
func runAsEtcdDruid(ctx context.Context, deployment *appsv1.Deployment) (*gexec.Session, string) {
	GinkgoHelper()

	pod, root := deployment.Spec.Template.Spec, GinkgoT().TempDir()
	mounted := func(volume string) map[string][]byte {
		for _, v := range pod.Volumes {
			switch {
			case v.Name != volume:
			case v.ConfigMap != nil:
				content := &corev1.ConfigMap{}
				Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: "garden", Name: v.ConfigMap.Name}, content)).To(Succeed())
				files := map[string][]byte{}
				for name, text := range content.Data {
					files[name] = []byte(text)
				}

				return files
			case v.Secret != nil:
				content := &corev1.Secret{}
				Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: "garden", Name: v.Secret.SecretName}, content)).To(Succeed())

				return content.Data
			}
		}
		Fail("no volume " + volume)

		return nil
	}

	metrics, webhookPort := environment.FreePort(), environment.FreePort()
	relocate := strings.NewReplacer("port: 10250", fmt.Sprintf("port: %d", webhookPort), "/etc/webhook-server-tls", filepath.Join(root, "/etc/webhook-server-tls"))
	for _, mount := range pod.Containers[0].VolumeMounts {
		Expect(os.MkdirAll(filepath.Join(root, mount.MountPath), 0o700)).To(Succeed())
		for name, content := range mounted(mount.Name) {
			Expect(os.WriteFile(filepath.Join(root, mount.MountPath, name), []byte(relocate.Replace(string(content))), 0o600)).To(Succeed())
		}
	}
	authority := writeLoopbackCertificate(filepath.Join(root, "/etc/webhook-server-tls"))
	var args []string
	for _, arg := range pod.Containers[0].Args {
		args = append(args, strings.ReplaceAll(arg, "=/", "="+root+"/"))
	}
	args = append(args, fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics), fmt.Sprintf("--health-bind-address=127.0.0.1:%d", environment.FreePort()))

	account, err := env.AddUser(envtest.User{
		Name:   "system:serviceaccount:garden:" + pod.ServiceAccountName,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:garden", "system:authenticated"},
	}, nil)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := account.KubeConfig()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(root, "kubeconfig"), kubeconfig, 0o600)).To(Succeed())

	// In a pod, a file next to the token contains the namespace.
	session := startCommand([]string{"KUBECONFIG=" + filepath.Join(root, "kubeconfig"), "LEADER_ELECTION_NAMESPACE=garden"}, args...)
	DeferCleanup(func() { Eventually(session.Interrupt(), 30*time.Second).Should(gexec.Exit()) })

	// The Service of the webhook has no endpoints here.
	configuration := webhooks()
	_, err = controllerutil.CreateOrPatch(ctx, env.Client, configuration, func() error {
		for i := range configuration.Webhooks {
			config := &configuration.Webhooks[i].ClientConfig
			config.URL, config.CABundle = new(fmt.Sprintf("https://127.0.0.1:%d%s", webhookPort, *config.Service.Path)), authority
			config.Service = nil
		}

		return nil
	})
	Expect(err).NotTo(HaveOccurred())

	return session, fmt.Sprintf("http://127.0.0.1:%d", metrics)
}

// writeLoopbackCertificate writes a server certificate for the loopback interface into the folder, and returns the CA.
func writeLoopbackCertificate(folder string) []byte {
	GinkgoHelper()

	ca, err := (&secretsutils.CertificateSecretConfig{Name: "ca", CommonName: "ca", CertType: secretsutils.CACert}).GenerateCertificate()
	Expect(err).NotTo(HaveOccurred())
	leaf, err := (&secretsutils.CertificateSecretConfig{
		Name: "loopback", CommonName: "loopback", CertType: secretsutils.ServerCert, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, SigningCA: ca,
	}).GenerateCertificate()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "tls.crt"), leaf.CertificatePEM, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "tls.key"), leaf.PrivateKeyPEM, 0o600)).To(Succeed())

	return ca.CertificatePEM
}

func get(url string) string {
	response, err := http.Get(url) // #nosec G107 -- an address of this test
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}

	return string(body)
}

var _ = Describe("The etcd-druid of gardenlet", func() {
	It("can be this operator in the Deployment of gardenlet, with the permissions that the chart adds", func(ctx SpecContext) {
		startFakeControllers(true)
		env.InstallChart(ctx, env.Namespace(ctx, "rights"), map[string]any{
			"replicaCount": 0, "additionalServiceAccounts": []any{map[string]any{"name": "etcd-druid", "namespace": "garden"}},
			"protection": map[string]any{"exemptUsers": []any{"exempt"}}, // of the policies of the chart
		})
		env.AwaitTrust(ctx, "garden", "etcd-druid", "")
		deployment := bootstrap(ctx)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
		hostname, err := os.Hostname()
		Expect(err).NotTo(HaveOccurred())
		pod.Name, pod.Spec.ServiceAccountName, pod.Spec.PriorityClassName = hostname, "", ""
		Expect(env.Client.Create(ctx, pod)).To(Succeed(), "the pod of the operator")
		DeferCleanup(func(ctx SpecContext) { Expect(env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed()) })

		By("matching the Service that Prometheus scrapes")
		service := &corev1.Service{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: "garden", Name: "gardener-extension-etcd-druid"}, service)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(env.Client.Delete(ctx, service)).To(Succeed()) })
		for key, value := range service.Spec.Selector {
			Expect(pod.Labels).To(HaveKeyWithValue(key, value))
		}
		Expect(deployment.Spec.Template.Spec.Containers[0].Ports).To(ContainElement(HaveField("ContainerPort", service.Spec.Ports[0].TargetPort.IntVal)))

		operator, address := runAsEtcdDruid(ctx, deployment)
		etcd := newEtcd(ctx)
		awaitReconciled(ctx, etcd)
		Expect(get(address + "/ownership")).To(Equal("acting\n"))

		By("changing the objects with gardener-resource-manager, through the webhook of gardenlet")
		change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Metrics = new(druidv1alpha1.MetricsLevel("extensive")) })
		awaitReconciled(ctx, etcd)
		configMap := &corev1.ConfigMap{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ConfigMapName(etcd)}, configMap)).To(Succeed())
		configMap.Data = nil
		Expect(env.ClientOf("exempt").Update(ctx, configMap)).To(MatchError(ContainSubstring(`admission webhook "etcdcomponents.webhooks.druid.gardener.cloud" denied the request`)))
		Expect(operator.Out).NotTo(gbytes.Say("forbidden"))
		Expect(operator.Err).NotTo(gbytes.Say("forbidden"))
		Expect(env.Client.Delete(ctx, etcd)).To(Succeed())
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd) }).Should(MatchError(apierrors.IsNotFound, "is not found"))
	}, SpecTimeout(4*time.Minute))

	It("can be taken over by a standby operator, which hands back without a restart of a pod", func(ctx SpecContext) {
		startFakeControllers(true)
		bootstrap(ctx)
		namespace := env.Namespace(ctx, "operator")
		values := func(policy string) map[string]any { return map[string]any{"predecessor": policy} }

		By("staying standby while etcd-druid runs")
		operator, address := runOperatorAt(namespace, env.InstallChart(ctx, namespace, values("StandBy")))
		etcd := newEtcd(ctx)
		Eventually(func() string { return get(address + "/ownership") }).Should(HavePrefix("standby: Deployment garden/etcd-druid"))
		Expect(get(address + "/metrics")).To(ContainSubstring("etcd_druid_standing_by 1"))
		Consistently(func() error {
			return env.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: "druid-test"}, &resourcesv1alpha1.ManagedResource{})
		}, 3*time.Second).Should(MatchError(apierrors.IsNotFound, "is not found"))
		Expect(operator).NotTo(gexec.Exit(), "a standby operator does not take part in the leader election")
		lease := &coordinationv1.Lease{}
		Expect(client.IgnoreNotFound(env.Client.Get(ctx, client.ObjectKey{Namespace: "garden", Name: "druid-leader-election"}, lease))).To(Succeed())
		Expect(lease.Spec.HolderIdentity).To(Or(BeNil(), HaveValue(BeEmpty())))
		Eventually(operator.Interrupt(), 30*time.Second).Should(gexec.Exit())

		By("taking over")
		operator, address = runOperatorAt(namespace, env.InstallChart(ctx, namespace, values("TakeOver")))
		awaitReconciled(ctx, etcd)
		Expect(get(address + "/ownership")).To(Equal("acting\n"))
		deployment, statefulSet, pod := &appsv1.Deployment{}, &appsv1.StatefulSet{}, &corev1.Pod{}
		Expect(env.Client.Get(ctx, etcdDruid, deployment)).To(Succeed())
		Expect(deployment.Spec.Replicas).To(HaveValue(BeZero()))
		Expect(env.Client.Get(ctx, client.ObjectKey{Name: etcdDruid.Name}, webhooks())).To(MatchError(apierrors.IsNotFound, "is not found"))
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: "test-0"}, pod)).To(Succeed())
		Eventually(operator.Interrupt(), 30*time.Second).Should(gexec.Exit())
		Expect(operator.Err).NotTo(gbytes.Say("forbidden"))

		By("handing back what is rolled out") // without etcd, the operator has not reported that
		before := etcd.DeepCopy()
		etcd.Status.ObservedGeneration, etcd.Status.LastOperation.State = &etcd.Generation, druidv1alpha1.LastOperationStateSucceeded
		Expect(env.Client.Status().Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
		operator, _ = runOperatorAt(namespace, env.InstallChart(ctx, namespace, values("GiveBack")))
		Eventually(func() error {
			return env.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: "druid-test"}, &resourcesv1alpha1.ManagedResource{})
		}, time.Minute).Should(MatchError(apierrors.IsNotFound, "is not found"))
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, etcdDruid, deployment)).To(Succeed())
			g.Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
			g.Expect(env.Client.Get(ctx, client.ObjectKey{Name: etcdDruid.Name}, webhooks())).To(Succeed())
		}).Should(Succeed(), "etcd-druid runs again")

		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		mounted := map[string]string{}
		for _, volume := range pod.Spec.Volumes {
			if volume.Secret != nil {
				mounted[volume.Name] = volume.Secret.SecretName
			}
		}
		Expect(etcd.Spec.Etcd.ClientUrlTLS).NotTo(BeNil())
		Expect(mounted).To(HaveKeyWithValue("etcd-ca", etcd.Spec.Etcd.ClientUrlTLS.TLSCASecretRef.Name), "TLS is still enabled")
		Expect(mounted).To(HaveKeyWithValue("etcd-server-tls", etcd.Spec.Etcd.ClientUrlTLS.ServerTLSSecretRef.Name))
		released := &corev1.Secret{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: mounted["etcd-server-tls"]}, released)).To(Succeed())
		Expect(released.Labels).NotTo(HaveKey("manager-identity"))

		after := &appsv1.StatefulSet{}
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(statefulSet), after)).To(Succeed())
		Expect(statefulSet.Spec.VolumeClaimTemplates).To(ConsistOf(HaveField("Labels", Equal(map[string]string{"resources.gardener.cloud/managed-by": "gardener"}))))
		statefulSet.Spec.VolumeClaimTemplates[0].Labels = nil
		Expect(after.Spec).To(Equal(statefulSet.Spec), "only the label of the resource manager is removed, with which etcd-druid could not update the StatefulSet")
		Consistently(func(g Gomega) {
			again := &corev1.Pod{}
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pod), again)).To(Succeed())
			g.Expect(again.UID).To(Equal(pod.UID))
		}, 2*time.Second).Should(Succeed())
		Expect(operator.Err).NotTo(gbytes.Say("forbidden"))
	}, SpecTimeout(5*time.Minute))
})
