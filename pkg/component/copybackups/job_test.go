// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

func task(change ...func(*druidv1alpha1.EtcdCopyBackupsTask)) *druidv1alpha1.EtcdCopyBackupsTask {
	task := &druidv1alpha1.EtcdCopyBackupsTask{}
	task.Name, task.Namespace, task.UID, task.Generation = "main", "demo", "task-uid", 3
	for _, apply := range change {
		apply(task)
	}

	return task
}

func store(provider backupstore.Provider, container, secret string) backupstore.Store {
	return backupstore.Store{Provider: provider, Container: container, Prefix: "demo/main", SecretName: secret}
}

func withEverything(task *druidv1alpha1.EtcdCopyBackupsTask) {
	task.Spec.PodLabels = map[string]string{"networking.gardener.cloud/to-dns": "allowed", "app.kubernetes.io/part-of": "mine"}
	task.Spec.MaxBackupAge, task.Spec.MaxBackups = new(uint32(30)), new(uint32(10))
	task.Spec.WaitForFinalSnapshot = &druidv1alpha1.WaitForFinalSnapshotSpec{Enabled: true, Timeout: &metav1.Duration{Duration: time.Hour}}
}

var goldens = map[string]func() copybackups.Values{
	"s3-to-gcs-with-everything": func() copybackups.Values {
		return copybackups.Values{Task: task(withEverything), Source: store("S3", "old", "source-etcd-backup"), Target: store("GCS", "new", "etcd-backup")}
	},
	"s3-without-secrets": func() copybackups.Values {
		return copybackups.Values{Task: task(), Source: store("S3", "old", ""), Target: store("S3", "new", "")}
	},
	"abs-to-swift": func() copybackups.Values {
		return copybackups.Values{Task: task(), Source: store("ABS", "old", "source-etcd-backup"), Target: store("Swift", "new", "etcd-backup")}
	},
	"oss-to-ocs": func() copybackups.Values {
		return copybackups.Values{Task: task(), Source: store("OSS", "old", "source-etcd-backup"), Target: store("OCS", "new", "etcd-backup")}
	},
	"ecs-to-local": func() copybackups.Values {
		return copybackups.Values{Task: task(), Source: store("ECS", "old", "source-etcd-backup"), Target: store("Local", "new", "")}
	},
	"local-to-s3-without-limit-of-the-wait": func() copybackups.Values {
		source := store("Local", "old", "")
		source.HostPath = "/mnt/backups"
		target := store("S3", "new", "etcd-backup")
		target.EndpointOverride = "https://s3.example.com"

		return copybackups.Values{Source: source, Target: target, Task: task(func(task *druidv1alpha1.EtcdCopyBackupsTask) {
			task.Spec.WaitForFinalSnapshot = &druidv1alpha1.WaitForFinalSnapshotSpec{Enabled: true, Timeout: &metav1.Duration{}}
		})}
	},
}

var _ = Describe("Job", func() {
	for name, values := range goldens {
		It("is as the golden file "+name+" shows", func() {
			v := values()
			v.Image, v.InitImage = "registry.example.com/etcdbrctl:v1", "registry.example.com/init:v1"
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(copybackups.Job(v))
			Expect(err).NotTo(HaveOccurred())
			unstructured.RemoveNestedField(object, "status")
			rendered, err := yaml.Marshal(object)
			Expect(err).NotTo(HaveOccurred())

			file := filepath.Join("testdata", name+".golden.yaml")
			if os.Getenv("UPDATE_GOLDEN") == "1" {
				Expect(os.WriteFile(file, rendered, 0o600)).To(Succeed())
			}
			golden, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred(), "UPDATE_GOLDEN=1 writes it")
			Expect(string(rendered)).To(Equal(string(golden)), "UPDATE_GOLDEN=1 updates the file; explain in the commit why the Job changed")
		})
	}

	DescribeTable("passes texts of a task unchanged to the processes", func(provider backupstore.Provider) {
		podWith := func(text string) corev1.PodSpec {
			store := backupstore.Store{Provider: provider, Container: text, Prefix: text, EndpointOverride: text, SecretName: text, HostPath: text}

			return copybackups.Job(copybackups.Values{Task: task(withEverything), Source: store, Target: store}).Spec.Template.Spec
		}
		var expected []string
		for _, text := range fixture.ProcessTexts(podWith(fixture.Plain)) {
			expected = append(expected, strings.ReplaceAll(text, fixture.Plain, fixture.Reference))
		}
		Expect(fixture.ProcessTexts(podWith(fixture.Reference))).To(Equal(expected))
	}, Entry("of S3", backupstore.ProviderS3), Entry("of Local", backupstore.ProviderLocal))

	It("has no golden file without a case", func() {
		var expected []string
		for name := range goldens {
			expected = append(expected, filepath.Join("testdata", name+".golden.yaml"))
		}
		Expect(filepath.Glob("testdata/*")).To(ConsistOf(expected))
	})

	It("does not wait for a final snapshot if that is disabled", func() {
		v := copybackups.Values{Source: store("S3", "old", ""), Target: store("S3", "new", ""), Task: task(func(task *druidv1alpha1.EtcdCopyBackupsTask) {
			task.Spec.WaitForFinalSnapshot = &druidv1alpha1.WaitForFinalSnapshotSpec{Timeout: &metav1.Duration{Duration: time.Hour}}
		})}
		Expect(copybackups.Job(v).Spec.Template.Spec.Containers[0].Args).NotTo(ContainElement(HavePrefix("--wait-for-final-snapshot")))
	})

	It("keeps its own labels, which the task cannot replace", func() {
		v := copybackups.Values{Source: store("S3", "old", ""), Target: store("S3", "new", ""), Task: task(func(task *druidv1alpha1.EtcdCopyBackupsTask) {
			task.Spec.PodLabels = map[string]string{
				"app.kubernetes.io/managed-by": "user", "app.kubernetes.io/part-of": "other", "app.kubernetes.io/component": "etcd-statefulset", "app.kubernetes.io/name": "x",
				"networking.gardener.cloud/to-dns": "allowed",
			}
		})}
		Expect(copybackups.Job(v).Spec.Template.Labels).To(Equal(map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main", "app.kubernetes.io/component": "etcd-copy-backups-job",
			"app.kubernetes.io/name": "main-worker", "networking.gardener.cloud/to-dns": "allowed",
		}))
	})

	It("does not change the task", func() {
		v := copybackups.Values{Source: store("S3", "old", ""), Target: store("S3", "new", ""), Task: task(withEverything)}
		before := v.Task.DeepCopy()
		copybackups.Job(v)
		Expect(v.Task).To(Equal(before))
	})
})
