// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

const configHeader = "apiVersion: config.druid.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\n"

func configFile(content string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "config.yaml")
	Expect(os.WriteFile(path, []byte(configHeader+content), 0o600)).To(Succeed())
	return path
}

// run runs the command with the arguments until it ends or the context is cancelled, and returns its error.
func run(ctx context.Context, args ...string) error {
	cmd := app.NewCommand(ctx)
	cmd.SetArgs(append([]string{"--kubeconfig=" + env.KubeconfigFile()}, args...))
	cmd.SetOut(GinkgoWriter)
	cmd.SetErr(GinkgoWriter)
	return cmd.Execute()
}

func get(url string) (int, string) {
	response, err := http.Get(url) // #nosec G107 -- an address of this test
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

var _ = Describe("The operator's command", func() {
	It("should become the leader, renew its heartbeat, serve health and metrics, and stop cleanly", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "operator")
		metrics, health := environment.FreePort(), environment.FreePort()
		config := configFile(fmt.Sprintf("server: {metrics: {bindAddress: 127.0.0.1, port: %d}, healthProbes: {bindAddress: 127.0.0.1, port: 1}}\n", metrics))

		runCtx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			ended <- run(runCtx, "--config="+config,
				fmt.Sprintf("--health-bind-address=127.0.0.1:%d", health), // overrides the file
				"--leader-election-namespace="+namespace,
				"--heartbeat-namespace="+namespace,
				"--heartbeat-renew-interval-seconds=1",
				"--etcd-workers=2", // deprecated, still accepted
			)
		}()
		DeferCleanup(stop)

		By("serving health probes")
		for _, path := range []string{"healthz", "readyz"} {
			Eventually(func() int {
				code, _ := get(fmt.Sprintf("http://127.0.0.1:%d/%s", health, path))
				return code
			}, time.Minute).Should(Equal(http.StatusOK), path)
		}
		_, body := get(fmt.Sprintf("http://127.0.0.1:%d/readyz?verbose", health))
		Expect(body).To(ContainSubstring("informer-sync ok"))

		By("serving metrics, and profiles only if enabled")
		Eventually(func() string {
			_, body := get(fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics))
			return body
		}, time.Minute).Should(ContainSubstring("controller_runtime_max_concurrent_reconciles"))
		code, _ := get(fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/", metrics))
		Expect(code).To(Equal(http.StatusNotFound))

		By("holding the leader election Lease and the heartbeat Lease")
		for name, holder := range map[string]string{"druid-leader-election": "", "gardener-extension-heartbeat": "gardener-extension-etcd-druid"} {
			Eventually(func(g Gomega) {
				lease := &coordinationv1.Lease{}
				g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lease)).To(Succeed())
				g.Expect(lease.Spec.HolderIdentity).To(HaveValue(ContainSubstring(holder)))
				g.Expect(lease.Spec.RenewTime).NotTo(BeNil())
			}, time.Minute).Should(Succeed(), name)
		}

		By("renewing the heartbeat Lease")
		renewed := func() time.Time {
			lease := &coordinationv1.Lease{}
			Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gardener-extension-heartbeat"}, lease)).To(Succeed())
			return lease.Spec.RenewTime.Time
		}
		first := renewed()
		Eventually(renewed, time.Minute, 200*time.Millisecond).Should(BeTemporally(">", first))

		By("releasing the leader election Lease when it stops, so that the next leader does not wait for its expiry")
		stop()
		Eventually(ended, time.Minute).Should(Receive(Succeed()))
		lease := &coordinationv1.Lease{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "druid-leader-election"}, lease)).To(Succeed())
		Expect(lease.Spec.HolderIdentity).To(HaveValue(BeEmpty()))
	}, SpecTimeout(5*time.Minute))

	It("should serve profiles only to users who may get them", func(ctx SpecContext) {
		namespace, metrics := env.Namespace(ctx, "operator"), environment.FreePort()
		config := configFile(fmt.Sprintf("server: {metrics: {bindAddress: 127.0.0.1, port: %d}}\ndebugging: {enableProfiling: true}\n", metrics))
		runCtx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			ended <- run(runCtx, "--config="+config, "--health-bind-address=0", "--leader-election-namespace="+namespace,
				"--disable-controllers=heartbeat,etcd,care,compaction,opstask,restoredrill,etcdcopybackupstask,secret") // a process can add each of them only once
		}()
		DeferCleanup(func() {
			stop()
			Eventually(ended, time.Minute).Should(Receive(Succeed()))
		})

		clientset, err := kubernetes.NewForConfig(env.Config)
		Expect(err).NotTo(HaveOccurred())
		tokenOf := func(name string) string {
			GinkgoHelper()
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			Expect(env.Client.Create(ctx, account)).To(Succeed())
			token, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return token.Status.Token
		}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/debug/pprof", "/debug/pprof/*"}, Verbs: []string{"get"}}}}
		Expect(env.Client.Create(ctx, role)).To(Succeed())
		Expect(env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "permitted"}},
		})).To(Succeed())
		permitted, other := tokenOf("permitted"), tokenOf("other")

		status := func(path, token string) func() int {
			return func() int {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", metrics, path), nil)
				Expect(err).NotTo(HaveOccurred())
				if token != "" {
					request.Header.Set("Authorization", "Bearer "+token)
				}
				response, err := http.DefaultTransport.RoundTrip(request)
				if err != nil {
					return 0
				}
				defer func() { _ = response.Body.Close() }()
				return response.StatusCode
			}
		}
		Eventually(status("/metrics", ""), time.Minute).Should(Equal(http.StatusOK), "Prometheus needs no token")
		for _, path := range []string{"/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/trace"} {
			Expect(status(path, "")()).To(Equal(http.StatusUnauthorized), path)
			Expect(status(path, other)()).To(Equal(http.StatusForbidden), path)
		}
		Eventually(status("/debug/pprof/heap", permitted), time.Minute).Should(Equal(http.StatusOK))
	}, SpecTimeout(3*time.Minute))

	DescribeTable("rejects at its start",
		func(ctx SpecContext, message string, args func() []string) {
			Expect(run(ctx, args()...)).To(MatchError(ContainSubstring(message)))
		},
		Entry("a configuration file with an unknown key, with the name of the key", "controllers.etcd.wrokers", func() []string {
			return []string{"--config=" + configFile("controllers: {etcd: {wrokers: 3}}\n")}
		}),
		Entry("a missing configuration file, with the name of the flag", "--config", func() []string {
			return []string{"--config=/does/not/exist"}
		}),
		Entry("a flag with an invalid value, with the name of the field", "controllers.etcd.concurrentSyncs", func() []string {
			return []string{"--etcd-workers=0"}
		}),
		Entry("an unknown flag, with its name", "--etcd-wrokers", func() []string {
			return []string{"--etcd-wrokers=3"}
		}),
		Entry("an unknown controller, with its name", "nosuch", func() []string {
			return []string{"--disable-controllers=nosuch"}
		}),
		Entry("a heartbeat without a namespace, with the flags that solve it", "--heartbeat-namespace", func() []string {
			return nil
		}),
	)

	It("should reject watched namespaces in a cluster with the CustomResourceDefinitions of Gardener", func(ctx SpecContext) {
		Expect(run(ctx, "--kubeconfig="+environment.Start().KubeconfigFile(), "--config="+configFile("watchNamespaces: [default]\n"), "--leader-election=false", "--disable-controllers=heartbeat,care,compaction,opstask,restoredrill,etcdcopybackupstask,secret", "--metrics-bind-address=0", "--health-bind-address=0")).
			To(MatchError(And(ContainSubstring("watchNamespaces"), ContainSubstring("Gardener"))))
	})

	It("should reject the embedded resource manager without the controller whose renderings it applies", func(ctx SpecContext) {
		Expect(run(ctx, "--embedded-resource-manager", "--disable-controllers=etcd", "--leader-election=false", "--heartbeat-namespace=default", "--metrics-bind-address=0", "--health-bind-address=0")).
			To(MatchError(And(ContainSubstring("resourceManager.embedded"), ContainSubstring("controller etcd"))))
	})

	It("should reject the embedded resource manager if a gardener-resource-manager is installed", func(ctx SpecContext) {
		namespace := "garden"
		Expect(client.IgnoreAlreadyExists(env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))).To(Succeed())
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "gardener-resource-manager", Namespace: namespace},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "grm"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "grm"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "grm", Image: "grm"}}},
				},
			},
		}
		Expect(env.Client.Create(ctx, deployment)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(env.Client.Delete(ctx, deployment)).To(Succeed()) })

		Expect(run(ctx, "--embedded-resource-manager", "--leader-election=false", "--heartbeat-namespace="+namespace, "--metrics-bind-address=0", "--health-bind-address=0")).
			To(MatchError(And(ContainSubstring(namespace+"/gardener-resource-manager"), ContainSubstring("--embedded-resource-manager"))))
	})
})
