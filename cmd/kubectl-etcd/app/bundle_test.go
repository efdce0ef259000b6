// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// interruptible returns a context that a test cancels like an interrupt.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// unpacked returns the files of an archive by their names without the directory.
func unpacked(path string) map[string]string {
	GinkgoHelper()
	file, err := os.Open(path) // #nosec G304 -- a file of the test
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	Expect(err).NotTo(HaveOccurred())
	reader, files := tar.NewReader(compressed), map[string]string{}
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(reader)
		Expect(err).NotTo(HaveOccurred())
		files[strings.TrimPrefix(header.Name, "etcd-report-main/")] = string(content)
	}
}

var _ = Describe("report", func() {
	const (
		password = "correct horse \"battery\" <staple>"
		key      = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBx0aGlzIGlzIG5vdCBhIHJlYWwga2V5IGF0IGFsbA==\nAwEHoUQDQgAEc2Vjb25kIGxpbmUgb2YgdGhlIGtleQ==\n-----END EC PRIVATE KEY-----\n"
	)
	secret := map[string][]byte{"password": []byte(password), "tls.key": []byte(key), "region": []byte("eu")}
	// leaks are forms of the data that must not be in any file.
	leaks := []string{
		password, base64.StdEncoding.EncodeToString([]byte(password)), `correct horse \"battery\"`, "battery", "staple",
		"MHcCAQEEIBx0aGlzIGlzIG5vdCBhIHJlYWwga2V5IGF0IGFsbA==", "AwEHoUQDQgAEc2Vjb25kIGxpbmUgb2YgdGhlIGtleQ==", base64.StdEncoding.EncodeToString([]byte(key)),
		"literal-value-of-a-variable",
	}

	// cluster has the data of its Secret in places where users and programs may have copied it.
	cluster := func() *fakeServer {
		etcd := etcdOf(1, druidv1alpha1.EtcdMemberStatusReady)
		etcd.Annotations = map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"password": "` + password + `"}`,
			"note": strings.Repeat("a long text that YAML splits into lines ", 5) + password,
		}
		etcd.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "druid.gardener.cloud/v1alpha1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}}
		labels := map[string]string{"app.kubernetes.io/part-of": "main"}
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Env: []corev1.EnvVar{
			{Name: "TOKEN", Value: "literal-value-of-a-variable"},
			{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "main-store"}, Key: "password"}}},
		}}}}
		server := newFakeServer(
			etcd, managedResourceOf(`{"version":1,"size":1}`),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "main-store"}, Data: secret},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "main-config"}, Data: map[string]string{"etcd.conf.yaml": "name: etcd\n"}},
			&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "main", Labels: labels}, Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}},
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "main-0", Labels: labels}, Spec: spec,
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "etcd", RestartCount: 1}, {Name: "backup-restore"}}},
			},
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}, InvolvedObject: corev1.ObjectReference{Kind: "Etcd", Name: "main"}, Message: "used " + password},
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "unrelated"}, Message: "unrelated message"},
		)
		server.logs = map[string]string{
			"default/main-0/etcd":          "started\npassword=" + password + "\n",
			"default/main-0/etcd/previous": "stopped\n" + key,
			"default/main-0/backup-restore": "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(password)) + "\n" +
				"in region eu\n",
		}

		return server
	}

	report := func(ctx SpecContext, server *fakeServer) map[string]string {
		GinkgoHelper()
		path := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
		code, text := server.run(ctx, "report", "main", "-f", path)
		Expect(code).To(Equal(0), text)
		Expect(text).To(HavePrefix("Wrote " + path))
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
		Expect(server.writes).To(BeEmpty())

		return unpacked(path)
	}

	It("contains what the analysis of a problem needs", func(ctx SpecContext) {
		files := report(ctx, cluster())
		Expect(files).To(And(
			HaveKeyWithValue("README.txt", ContainSubstring("Support bundle of Etcd default/main")),
			HaveKeyWithValue("status.txt", ContainSubstring("ETCD        default/main")),
			HaveKeyWithValue("status.json", ContainSubstring(`"name": "main"`)),
			HaveKeyWithValue("etcd.yaml", And(ContainSubstring("kind: Etcd"), Not(ContainSubstring("managedFields")), Not(ContainSubstring("last-applied")))),
			HaveKeyWithValue("managedresource.yaml", ContainSubstring("name: druid-main")),
			HaveKeyWithValue("plan.txt", Not(BeEmpty())),
			HaveKeyWithValue("record.json", ContainSubstring(`"size": 1`)),
			HaveKeyWithValue("statefulset.yaml", ContainSubstring("kind: StatefulSet")),
			HaveKeyWithValue("configmap.yaml", ContainSubstring("name: etcd")),
			HaveKeyWithValue("pods.yaml", And(ContainSubstring("name: main-0"), ContainSubstring("name: TOKEN"), ContainSubstring("value: REDACTED"), ContainSubstring("secretKeyRef:"))),
			HaveKeyWithValue("events.yaml", And(ContainSubstring("used REDACTED"), Not(ContainSubstring("unrelated message")))),
			HaveKeyWithValue("logs/main-0-etcd.log", Equal("started\npassword=REDACTED\n")),
			HaveKeyWithValue("logs/main-0-etcd-previous.log", HavePrefix("stopped\n")),
			HaveKeyWithValue("logs/main-0-backup-restore.log", And(ContainSubstring("Basic REDACTED"), ContainSubstring("in region eu"))),
		))
		Expect(files).NotTo(HaveKey("logs/main-0-backup-restore-previous.log"))
	})

	It("contains no data of a Secret, and no Secret", func(ctx SpecContext) {
		for name, content := range report(ctx, cluster()) {
			for _, leak := range leaks {
				Expect(content).NotTo(ContainSubstring(leak), name)
			}
			Expect(content).NotTo(ContainSubstring("kind: Secret\n"), name)
		}
	})

	It("contains no logs and no ConfigMap if the user may not list Secrets, and says so", func(ctx SpecContext) {
		server := cluster()
		server.forbidden = func(_, path string) bool { return path == "secrets" || strings.HasPrefix(path, "secrets/") }
		files := report(ctx, server)
		Expect(files).To(And(HaveKey("etcd.yaml"), HaveKey("pods.yaml"), Not(HaveKey("configmap.yaml"))))
		for name := range files {
			Expect(name).NotTo(HavePrefix("logs/"))
		}
		Expect(files["README.txt"]).To(ContainSubstring("- Secrets, and therefore logs and ConfigMaps: "))
	})

	It("omits what cannot be read, with the reason", func(ctx SpecContext) {
		server := cluster()
		server.forbidden = func(_, path string) bool { return path == "events" }
		files := report(ctx, server)
		Expect(files).NotTo(HaveKey("events.yaml"))
		Expect(files["README.txt"]).To(MatchRegexp(`- events.yaml: .*forbidden`))
	})

	It("does not replace a file", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
		Expect(os.WriteFile(path, []byte("other"), 0o600)).To(Succeed())
		code, text := cluster().run(ctx, "report", "main", "-f", path)
		Expect(code).To(Equal(1))
		Expect(text).To(ContainSubstring("the archive is not written"))
		Expect(os.ReadFile(path)).To(BeEquivalentTo("other"))
	})
})
