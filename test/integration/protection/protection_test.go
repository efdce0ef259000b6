// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package protection_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	"github.com/gardener/gardener/extensions/pkg/webhook/certificates"
	extensionswebhookcmd "github.com/gardener/gardener/extensions/pkg/webhook/cmd"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	plugin "github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/eviction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/registration"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

const (
	namespace = "shoot--a--b"
	operators = "extension-etcd-druid"
	// protected is the beginning of every rejection message.
	protected = "this is part of Etcd"
)

// user is a column of the table.
type user struct {
	name   string
	client client.Client
}

// users returns all users of the table. RBAC allows them every request.
func users() []user {
	account := func(namespace, name string) client.Client {
		return env.ClientOf("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}

	return []user{
		{"administrator", env.ClientOf("jane")},
		{"other ServiceAccount", account("default", "other")},
		{"operator", account(operators, "gardener-extension-etcd-druid")},
		{"resource manager", account("garden", "gardener-resource-manager")},
		{"exempt user", env.ClientOf("exempt")},
		{"drainer", env.ClientOf("drainer")},
		{"sidecar", account(namespace, "main")},
		{"sidecar of another Etcd", account(namespace, "external")},
		{"kubelet", env.ClientOf("system:node:n1", "system:nodes")},
		{"scheduler", env.ClientOf("system:kube-scheduler")},
		{"namespace controller", account("kube-system", "namespace-controller")},
		{"controller manager", env.ClientOf("system:kube-controller-manager")},
	}
}

// try sends the request as a dry run and returns whether the protection allows it. It returns true if the API server rejects the
// request as invalid, and an error if the API server rejects it for another reason.
func (a attempt) try(ctx context.Context, c client.Client) (bool, error) {
	object := a.object.DeepCopyObject().(client.Object)
	object.SetNamespace(namespace)

	patch := client.RawPatch(types.MergePatchType, []byte(a.patch))

	var err error

	switch {
	case a.everywhere:
		err = c.DeleteAllOf(ctx, object, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/part-of": "main"}, client.DryRunAll)
	case a.subresource != "":
		err = c.SubResource(a.subresource).Patch(ctx, object, patch, client.DryRunAll)
	case a.patch != "":
		err = c.Patch(ctx, object, patch, client.DryRunAll)
	default:
		err = c.Delete(ctx, object, client.DryRunAll)
	}

	switch {
	case err != nil && strings.Contains(err.Error(), protected):
		return false, nil
	case apierrors.IsInvalid(err): // the protection does not validate objects
		return true, nil
	}

	return err == nil, err
}

// table returns the table of permissions. It has a line for each attempt and a column for each user.
func table(ctx context.Context) string {
	GinkgoHelper()

	all := users()

	var text strings.Builder

	for i, user := range all {
		text.WriteString(strings.Repeat("| ", i) + user.name + "\n")
	}

	for _, attempt := range attempts() {
		for _, user := range all {
			allowed, err := attempt.try(ctx, user.client)
			Expect(err).NotTo(HaveOccurred(), "%s as %s", attempt.name, user.name)

			mark := map[bool]string{true: "+ ", false: ". "}[allowed]
			text.WriteString(mark)
		}

		text.WriteString(" " + attempt.name + "\n")
	}

	return text.String()
}

func expectTable(ctx context.Context, golden string) {
	GinkgoHelper()

	text, path := table(ctx), filepath.Join("testdata", golden)

	if os.Getenv("UPDATE_GOLDEN") != "" {
		Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}

	want, err := os.ReadFile(path) // #nosec G304 -- a constant of this test
	Expect(err).NotTo(HaveOccurred())
	Expect(text).To(Equal(string(want)))
}

// serve serves the webhook with a certificate that it issues. The returned function stops the server.
func serve(config configv1alpha1.EtcdComponentProtectionWebhookConfiguration, port int) (stop func()) {
	GinkgoHelper()

	options := manager.Options{
		Scheme:        app.NewScheme(),
		Metrics:       metricsserver.Options{BindAddress: "0"},
		Client:        app.ClientOptions(),
		Cache:         app.CacheOptions(),
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: GinkgoT().TempDir()}),
	}
	options.Controller.SkipNameValidation = new(true)

	mgr, err := manager.New(env.Config, options)
	Expect(err).NotTo(HaveOccurred())

	ctx, cancel := context.WithCancel(context.Background())
	server := registration.Options{
		Name:   app.Name,
		Owner:  "extensions.gardener.cloud:gardener-extension-etcd-druid",
		Server: &extensionswebhookcmd.ServerConfig{Mode: extensionswebhook.ModeURL, URL: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Namespace: operators},
	}
	accounts := etcdcomponents.AccountsFor(config)
	etcdcomponents.AddToManager(mgr, accounts)
	path, err := server.SecretPath(ctx, mgr.GetClient(), eviction.Path)
	Expect(err).NotTo(HaveOccurred())
	eviction.AddToManager(mgr, path, druidv1alpha1.UpdateStrategyRestart)
	webhooks := append(etcdcomponents.Webhooks(server.ClientConfig, accounts), eviction.Webhooks(server.ClientConfig, path)...)
	Expect(registration.AddToManager(ctx, mgr, server, webhooks...)).To(Succeed())

	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(ctx)).To(Succeed())
	}()

	return func() {
		cancel()
		<-done
	}
}

// registered returns the ValidatingWebhookConfiguration of the operator.
func registered(ctx context.Context) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}

	return configuration, env.Client.Get(ctx, client.ObjectKey{Name: "gardener-extension-etcd-druid"}, configuration)
}

var _ = Describe("The objects of an Etcd", Ordered, func() {
	var (
		port          int
		protection    configv1alpha1.EtcdComponentProtectionWebhookConfiguration
		stop          func()
		administrator client.Client
	)

	BeforeAll(func(ctx SpecContext) {
		for _, name := range []string{namespace, operators, "garden"} {
			Expect(env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		}

		for _, etcd := range []*druidv1alpha1.Etcd{
			fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace(namespace)),
			fixture.Etcd(fixture.WithName("external"), fixture.WithNamespace(namespace), func(etcd *druidv1alpha1.Etcd) {
				etcd.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1"}
			}),
		} {
			etcd.UID, etcd.Generation = "", 0
			Expect(env.Client.Create(ctx, etcd)).To(Succeed())
		}

		for _, p := range append(append(objectsOf("main"), objectsOf("external")...), unprotectedObjects()...) {
			p.object.SetNamespace(namespace)
			Expect(env.Client.Create(ctx, p.object)).To(Succeed(), p.name)
		}

		config, err := configv1alpha1.Decode([]byte(env.InstallChart(ctx, operators, map[string]any{
			"vpa": map[string]any{"enabled": false}, "serviceMonitor": map[string]any{"enabled": false}, "prometheusRule": map[string]any{"enabled": false}, // their CustomResourceDefinitions are not installed
			"protection": map[string]any{"deletionConfirmation": true, "exemptUsers": []string{"exempt"}, "drainers": []string{"drainer"}},
		})))
		Expect(err).NotTo(HaveOccurred())
		protection = config.Webhooks.EtcdComponentProtection

		certificates.DefaultSyncPeriod = time.Second // the default is five minutes
		port, administrator = environment.FreePort(), env.ClientOf("jane")
		stop = serve(protection, port)
		DeferCleanup(func() { stop() })

		// The API server applies each policy and each webhook at a different time.
		for _, one := range attempts() {
			switch one.name {
			case "delete the StatefulSet", "delete the ManagedResource", "delete the PersistentVolumeClaim with older labels", "scale the StatefulSet", "delete the issued Secret":
				Eventually(one.try).WithArguments(ctx, administrator).Should(BeFalse(), one.name)
			}
		}
	})

	It("can be changed and deleted only by the users in the table", func(ctx SpecContext) {
		expectTable(ctx, "whomaydowhat.golden.txt")
	}, SpecTimeout(2*time.Minute))

	It("can be changed by every user while the annotation of the Etcd disables the protection", func(ctx SpecContext) {
		etcd := &druidv1alpha1.Etcd{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "main"}, etcd)).To(Succeed())
		annotate := func(value string) {
			Expect(env.Client.Patch(ctx, etcd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"druid.gardener.cloud/disable-etcd-component-protection":`+value+`}}}`)))).To(Succeed())
		}

		annotate(`""`)
		for _, one := range attempts() {
			if !strings.Contains(one.name, "with externally managed members") {
				Eventually(one.try).WithArguments(ctx, administrator).Should(BeTrue(), one.name)
			}
		}

		annotate("null")
		Eventually(attempts()[0].try).WithArguments(ctx, administrator).Should(BeFalse())
	}, SpecTimeout(2*time.Minute))

	It("are not changed by a dry run of their adoption", func(ctx SpecContext) {
		etcd := fixture.Etcd(fixture.WithName("etcd-druid"), fixture.WithNamespace(namespace))
		etcd.UID, etcd.Generation = "", 0
		Expect(env.Client.Create(ctx, etcd)).To(Succeed())
		druid := fixture.EtcdDruid{Etcd: etcd, WrapperImage: "registry.example.com/etcd-wrapper:v0", SidecarImage: "registry.example.com/etcdbrctl:v0"}
		for _, object := range druid.Objects() {
			Expect(env.Client.Create(ctx, object)).To(Succeed())
		}
		statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-druid"}}
		Eventually(func() error {
			return administrator.Patch(ctx, statefulSet, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)), client.DryRunAll)
		}).Should(MatchError(ContainSubstring(protected)))

		out := &bytes.Buffer{}
		code := plugin.Run(ctx, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out}, []string{
			"adopt", "etcd-druid", "--dry-run", "-n", namespace, "--kubeconfig", env.KubeconfigFile(), "--as", "jane", "--as-group", "system:masters",
		})

		Expect(code).To(Equal(0), out.String())
		Expect(out.String()).To(And(
			MatchRegexp(`image of container etcd:\s+\S+,\s+now registry.example.com/etcd-wrapper:v0\n`),
			ContainSubstring("security settings of container etcd\n"),
			Not(ContainSubstring("other settings")), // for example the defaults of the API server
		))
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet)).To(Succeed())
		Expect(statefulSet.Generation).To(Equal(int64(1)))
	})

	It("do not need a confirmation of their deletion, in contrast to the Etcd", func(ctx SpecContext) {
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace(namespace))
		Eventually(func() error { return administrator.Delete(ctx, etcd, client.DryRunAll) }).
			Should(MatchError(ContainSubstring("confirmation.gardener.cloud/deletion=true")))
		Expect(env.Controllers().Delete(ctx, etcd, client.DryRunAll)).To(Succeed(), "the namespace controller does not need a confirmation")

		Expect(administrator.Patch(ctx, etcd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`)))).To(Succeed())
		Expect(administrator.Delete(ctx, etcd, client.DryRunAll)).To(Succeed())
	})

	It("include the pod of the only member, whose eviction waits for a surge", func(ctx SpecContext) {
		createSingleMember(ctx)
		Eventually(func() error { return evict(ctx, metav1.DryRunAll) }).Should(Satisfy(apierrors.IsTooManyRequests))
		Expect(evictionRequestedAt(ctx)).To(BeEmpty(), "a dry run annotates nothing")

		err := evict(ctx)
		Expect(err).To(Satisfy(apierrors.IsTooManyRequests))
		Expect(err).To(MatchError(And(ContainSubstring("through a temporary second member"), ContainSubstring("updateStrategy"))))
		Expect(time.Parse(time.RFC3339, evictionRequestedAt(ctx))).To(BeTemporally("~", time.Now(), time.Minute))

		By("evicting the pod that a surge has created")
		temporary := singlePod("single-1")
		Expect(env.Client.Create(ctx, temporary)).To(Succeed())
		Eventually(func() metav1.Time { // the unit of a creation timestamp is a second
			pod := singlePod("single-0")
			recreate(ctx, pod)

			return pod.CreationTimestamp
		}).ShouldNot(Equal(temporary.CreationTimestamp))
		Eventually(func() error { return evict(ctx, metav1.DryRunAll) }).Should(Satisfy(apierrors.IsNotFound))
		Expect(env.Controllers().Delete(ctx, temporary, client.GracePeriodSeconds(0))).To(Succeed())

		By("reaching the time limit")
		Eventually(func() error { return evict(ctx) }).Should(Satisfy(apierrors.IsTooManyRequests))
		annotation := fmt.Sprintf(`{"metadata":{"annotations":{"etcd-druid.extensions.gardener.cloud/eviction-requested":%q}}}`, time.Now().Add(-10*time.Minute).UTC().Format(time.RFC3339))
		Expect(env.Client.Patch(ctx, singlePod("single-0"), client.RawPatch(types.MergePatchType, []byte(annotation)))).To(Succeed())
		Eventually(func() error { return evict(ctx) }).Should(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(singlePod("single-0")), &corev1.Pod{})).To(Satisfy(apierrors.IsNotFound))
	}, SpecTimeout(2*time.Minute))

	It("stay protected when the operator renews the certificates of the webhook", func(ctx SpecContext) {
		before, bundle := servedSerial(port), certificatesIn(ctx)
		Expect(bundle).To(HaveLen(1))

		By("setting an expiration time that is near")
		secrets := &corev1.SecretList{}
		Expect(env.Client.List(ctx, secrets, client.InNamespace(operators), client.MatchingLabels{"managed-by": "secrets-manager"})).To(Succeed())
		Expect(secrets.Items).NotTo(BeEmpty())

		for i := range secrets.Items {
			if _, ok := secrets.Items[i].Labels["valid-until-time"]; ok {
				labels := fmt.Sprintf(`{"metadata":{"labels":{"issued-at-time":"%d","valid-until-time":"%d"}}}`, time.Now().Add(-30*24*time.Hour).Unix(), time.Now().Add(time.Hour).Unix())
				Expect(env.Client.Patch(ctx, &secrets.Items[i], client.RawPatch(types.MergePatchType, []byte(labels)))).To(Succeed())
			}
		}

		Eventually(certificatesIn).WithArguments(ctx).Should(ConsistOf(bundle[0], Not(Equal(bundle[0]))), "the ValidatingWebhookConfiguration contains the old CA and the new CA")
		Eventually(servedSerial).WithArguments(port).ShouldNot(Equal(before))
		scale := attempt{object: objectsOf("main")[0].object, patch: `{"spec":{"replicas":2}}`, subresource: "scale"}
		Eventually(scale.try).WithArguments(ctx, administrator).Should(BeFalse())
	}, SpecTimeout(2*time.Minute))

	It("are protected in the same way without policies if gardenlet registers the webhook for all of them", func(ctx SpecContext) {
		Expect(env.Client.DeleteAllOf(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{})).To(Succeed())
		Eventually(attempts()[0].try).WithArguments(ctx, administrator).Should(BeTrue())

		own, err := registered(ctx)
		Expect(err).NotTo(HaveOccurred())
		everything := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "etcd-druid"}}
		everything.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "etcdcomponents.webhooks.druid.gardener.cloud",
			ClientConfig:            own.Webhooks[0].ClientConfig,
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE", "DELETE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*", "statefulsets/scale"}},
			}},
		}}
		Expect(env.Client.Create(ctx, everything)).To(Succeed())
		Eventually(attempts()[0].try).WithArguments(ctx, administrator).Should(BeFalse())

		expectTable(ctx, "whomaydowhat.golden.txt")
		Expect(env.Client.Delete(ctx, everything)).To(Succeed())
	}, SpecTimeout(2*time.Minute))

	It("are the only objects that need an available webhook, and only for unprivileged users", func(ctx SpecContext) {
		stop()
		stop = func() {}

		recreate(ctx, singlePod("single-0"))
		Expect(evict(ctx)).To(Succeed(), "without the webhook, the eviction passes")

		scale := func(name string, c client.Client) error {
			_, err := attempt{object: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch: `{"spec":{"replicas":2}}`, subresource: "scale"}.try(ctx, c)

			return err
		}
		Eventually(func() error { return scale("main", administrator) }).Should(MatchError(ContainSubstring("failed calling webhook")))
		Expect(attempt{object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "main-client-ca"}}}.try(ctx, administrator)).Error().To(MatchError(ContainSubstring("failed calling webhook")))

		all := append(attempts(), attempt{object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other-ca"}}})
		for _, one := range all {
			if strings.Contains(one.name, "of another owner") || strings.Contains(one.name, "another secrets manager") {
				Expect(one.try(ctx, administrator)).To(BeTrue(), one.name)
			}
		}

		for _, user := range users() {
			switch user.name {
			case "operator", "resource manager", "exempt user", "kubelet", "namespace controller":
				Expect(scale("main", user.client)).To(Succeed(), user.name)
			}
		}
	}, SpecTimeout(time.Minute))

	It("are no longer protected after the protection is disabled", func(ctx SpecContext) {
		Expect(registration.Unregister(ctx, env.Client, "gardener-extension-etcd-druid")).To(Succeed())
		_, err := registered(ctx)
		Expect(err).To(Satisfy(apierrors.IsNotFound))
		Expect(registration.Unregister(ctx, env.Client, "gardener-extension-etcd-druid")).To(Succeed(), "Unregister is idempotent")

		for _, one := range attempts() {
			Eventually(one.try).WithArguments(ctx, administrator).Should(BeTrue(), one.name)
		}
	}, SpecTimeout(time.Minute))
})

// createSingleMember creates an Etcd that replaces its only member by a surge, and the ready pod of this member.
func createSingleMember(ctx context.Context) {
	GinkgoHelper()

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-single"}}
	Expect(env.Client.Create(ctx, node)).To(Succeed())
	// The API server taints new nodes.
	Expect(env.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":null}}`)))).To(Succeed())

	etcd := fixture.Etcd(fixture.WithName("single"), fixture.WithNamespace(namespace), fixture.WithReplicas(1), func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategySurge)
	})
	etcd.UID, etcd.Generation = "", 0
	Expect(env.Client.Create(ctx, etcd)).To(Succeed())
	recreate(ctx, singlePod("single-0"))
}

// singlePod returns a pod of the Etcd of createSingleMember.
func singlePod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "single", "app.kubernetes.io/component": "etcd-statefulset",
		}},
		Spec: corev1.PodSpec{NodeName: "node-of-single", Containers: []corev1.Container{{Name: "etcd", Image: "registry.example.com/etcd"}}},
	}
}

// recreate creates the pod in place of another one with the same name, and reports it as ready.
func recreate(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()

	Expect(client.IgnoreNotFound(env.Controllers().Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0)))).To(Succeed())
	Expect(env.Client.Create(ctx, pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	Expect(env.Client.Status().Update(ctx, pod)).To(Succeed())
}

// evict evicts the pod of the only member, as a user who drains its node.
func evict(ctx context.Context, dryRun ...string) error {
	return env.ClientOf("jane").SubResource("eviction").Create(ctx, singlePod("single-0"),
		&policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), DryRun: dryRun}})
}

// evictionRequestedAt returns the annotation of the pod of the only member.
func evictionRequestedAt(ctx context.Context) string {
	GinkgoHelper()

	pod := singlePod("single-0")
	Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())

	return pod.Annotations["etcd-druid.extensions.gardener.cloud/eviction-requested"]
}

// servedSerial returns the serial number of the certificate that the webhook server presents.
func servedSerial(port int) string {
	connection, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), &tls.Config{InsecureSkipVerify: true}) // #nosec G402 -- the test only reads the certificate
	if err != nil {
		return err.Error()
	}
	defer func() { _ = connection.Close() }()

	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// certificatesIn returns the CA certificates in the ValidatingWebhookConfiguration.
func certificatesIn(ctx context.Context) []string {
	configuration, err := registered(ctx)
	if err != nil {
		return []string{err.Error()}
	}

	bundle := strings.TrimSpace(string(configuration.Webhooks[0].ClientConfig.CABundle))

	return slices.DeleteFunc(strings.Split(bundle, "-----BEGIN CERTIFICATE-----\n"), func(one string) bool { return strings.TrimSpace(one) == "" })
}
