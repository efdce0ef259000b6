// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	// sourceContainer and targetContainer are the containers from which and to which snapshots are copied. The Secrets have the same names.
	sourceContainer, targetContainer = "source-bucket", "target-bucket"
	// prefix is the prefix of both stores, as in Gardener.
	prefix = "shoot--foo--bar--0fa0ff9c-3a1e-4d2c-9a7f-2f1a5e8d6b3c/etcd-main"
	// image is the image of the sidecar, which the tests replace with a program.
	image = "example.com/etcd-backup-restore:v2"
)

// storeCase is a store of a provider with the Secret that the extension of Gardener writes for it. `{address}` in its strings is the address of
// the server, for clients that ignore proxies. `{name}` is the name of the Secret.
type storeCase struct {
	provider druidv1alpha1.StorageProvider
	api      api
	// secret is the Secret. Gardener adds bucketName.
	secret map[string]string
	// endpointOverride is the endpoint in the spec.
	endpointOverride string
	// host is the expected host of the endpoint, and authHost of the endpoint that issues tokens. Empty: there is none.
	host, authHost string
	// credential identifies the credentials of the Secret.
	credential string
	// ignoresOverride is true if etcd-backup-restore ignores the endpoint in the spec. The test then sets one, if there is a flag for it.
	ignoresOverride bool
	// isShared is true if one Secret must be valid for both stores of a copy.
	isShared bool
}

var _ = DescribeTable("etcd-backup-restore reaches with the rendered flags, environment and Secret",
	func(ctx SpecContext, c storeCase) {
		if c.endpointOverride != "" && !overridesEndpoints {
			Skip("this version of etcd-backup-restore has no flag --store-endpoint-override")
		}
		if c.ignoresOverride && overridesEndpoints {
			c.endpointOverride = "https://ignored.example.com"
		}
		cloud := startCloud(c.api)
		run := newRunner(c, cloud)
		sourceSecret := sourceContainer
		if c.isShared {
			sourceSecret = targetContainer
		}
		source, target := c.store(sourceContainer, sourceSecret), c.store(targetContainer, targetContainer)

		By("initializing a member whose store is empty")
		run.sidecar(ctx, target, c.calls(cloud, targetContainer, targetContainer, "list"))

		By("copying a snapshot")
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Name: "copy", Namespace: "test-ns"}}
		job := copybackups.Job(copybackups.Values{Task: task, Source: source, Target: target, Image: image})
		run.job(ctx, job.Spec.Template.Spec, job.Spec.Template.Spec.Containers[0], slices.Concat(
			c.calls(cloud, sourceContainer, sourceSecret, "list", "get"), c.calls(cloud, targetContainer, targetContainer, "list", "put"),
		))

		values := compaction.Values{Etcd: fixture.Etcd(), Store: target, Image: image, Deadline: time.Hour, Attempt: 1}
		By("compacting an empty store")
		pod := compaction.Job(values).Spec.Template.Spec
		run.job(ctx, pod, pod.Containers[0], c.calls(cloud, targetContainer, targetContainer, "list"))

		By("restoring from an empty store")
		pod = compaction.RestoreVerificationJob(values).Spec.Template.Spec
		run.job(ctx, pod, pod.InitContainers[0], c.calls(cloud, targetContainer, targetContainer, "list"))
	},
	Entry("S3", storeCase{
		provider: "aws", api: s3, host: "s3.eu-west-1.amazonaws.com", credential: "{name} in eu-west-1",
		secret: map[string]string{"accessKeyID": "{name}", "secretAccessKey": "secret", "region": "eu-west-1"},
	}),
	Entry("S3 at another endpoint", storeCase{
		provider: "stackit", api: s3, host: "object.storage.eu01.onstackit.cloud", credential: "{name} in eu01",
		secret: map[string]string{
			"accessKeyID": "{name}", "secretAccessKey": "secret", "region": "eu01",
			"endpoint": "https://object.storage.eu01.onstackit.cloud", "s3ForcePathStyle": "true",
		},
	}),
	Entry("S3 at the endpoint of the spec", storeCase{
		provider: "aws", api: s3, host: "s3.example.com", credential: "{name} in eu-west-1", endpointOverride: "https://s3.example.com",
		secret: map[string]string{"accessKeyID": "{name}", "secretAccessKey": "secret", "region": "eu-west-1"},
	}),
	Entry("ABS", storeCase{
		provider: "azure", api: abs, host: "{name}.blob.core.windows.net", credential: "{name}",
		secret: map[string]string{"storageAccount": "{name}", "storageKey": "c2VjcmV0"},
	}),
	Entry("ABS in another cloud", storeCase{
		provider: "azure", api: abs, host: "{name}.blob.core.chinacloudapi.cn", credential: "{name}",
		secret: map[string]string{"storageAccount": "{name}", "storageKey": "c2VjcmV0", "domain": "blob.core.chinacloudapi.cn"},
	}),
	Entry("ABS at the endpoint of the spec", storeCase{
		provider: "azure", api: abs, host: "blob.example.com", credential: "{name}", endpointOverride: "https://blob.example.com",
		secret: map[string]string{"storageAccount": "{name}", "storageKey": "c2VjcmV0"},
	}),
	Entry("GCS", storeCase{
		provider: "gcp", api: gcs, host: "storage.googleapis.com", authHost: "oauth2.googleapis.com", credential: "{name}@example.com",
		secret: map[string]string{"serviceaccount.json": "{service account}"},
	}),
	Entry("GCS at another endpoint", storeCase{
		provider: "gcp", api: gcs, host: "storage.me-central2.rep.googleapis.com", authHost: "oauth2.googleapis.com", credential: "{name}@example.com",
		secret: map[string]string{"serviceaccount.json": "{service account}", "storageAPIEndpoint": "https://storage.me-central2.rep.googleapis.com/storage/v1/"},
	}),
	Entry("GCS at the endpoint of the spec", storeCase{
		provider: "gcp", api: gcs, host: "storage.example.com", authHost: "oauth2.googleapis.com", credential: "{name}@example.com",
		endpointOverride: "https://storage.example.com/storage/v1/",
		secret:           map[string]string{"serviceaccount.json": "{service account}"},
	}),
	Entry("Swift with a password", storeCase{
		provider: "openstack", api: swift, ignoresOverride: true, host: "swift.example.com", authHost: "keystone-{name}.example.com", credential: "{name}/password of domain in domain/tenant",
		secret: map[string]string{
			"authURL": "https://keystone-{name}.example.com/v3", "domainName": "domain", "tenantName": "tenant", "username": "{name}", "password": "password", "region": "r",
		},
	}),
	Entry("Swift with an application credential", storeCase{
		provider: "openstack", api: swift, ignoresOverride: true, host: "swift.example.com", authHost: "keystone-{name}.example.com", credential: "{name}/secret",
		secret: map[string]string{
			"authURL": "https://keystone-{name}.example.com/v3", "domainName": "domain", "tenantName": "tenant", "region": "r",
			"applicationCredentialID": "{name}", "applicationCredentialName": "backup", "applicationCredentialSecret": "secret",
		},
	}),
	Entry("OSS", storeCase{
		provider: "alicloud", api: s3, ignoresOverride: true, host: "{address}", credential: "{name}",
		secret: map[string]string{"accessKeyID": "{name}", "accessKeySecret": "secret", "storageEndpoint": "https://{address}"},
	}),
	Entry("OCS", storeCase{
		provider: "openshift", api: s3, ignoresOverride: true, host: "{address}", credential: "{name} in r",
		secret: map[string]string{"accessKeyID": "{name}", "secretAccessKey": "secret", "region": "r", "endpoint": "https://{address}"},
	}),
	Entry("ECS", storeCase{
		provider: "dell", api: s3, ignoresOverride: true, host: "{address}", credential: "{name} in US-Standard", isShared: true,
		secret: map[string]string{"accessKeyID": "{name}", "secretAccessKey": "secret", "endpoint": "https://{address}"},
	}),
)

var _ = It("etcd-backup-restore copies between the mounted directories of Local stores", func(ctx SpecContext) {
	c := storeCase{provider: "Local"}
	source, target := c.store(sourceContainer, "hosts"), c.store(targetContainer, "hosts")
	task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Name: "copy", Namespace: "test-ns"}}
	pod := copybackups.Job(copybackups.Values{Task: task, Source: source, Target: target, Image: image}).Spec.Template.Spec
	m := machine{root: GinkgoT().TempDir()}
	command := m.command(ctx, pod, pod.Containers[0])
	directory := func(container string) string {
		mounts := pod.Containers[0].VolumeMounts
		index := slices.IndexFunc(mounts, func(mount corev1.VolumeMount) bool { return filepath.Base(mount.MountPath) == container })
		Expect(index).NotTo(Equal(-1))

		return filepath.Join(m.path(mounts[index].MountPath), prefix, "v2")
	}
	Expect(os.MkdirAll(directory(sourceContainer), 0o700)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(directory(sourceContainer), snapshotName), []byte(content), 0o600)).To(Succeed())

	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	copied, err := os.ReadFile(filepath.Join(directory(targetContainer), snapshotName))
	Expect(err).NotTo(HaveOccurred(), string(output))
	Expect(string(copied)).To(Equal(content))
})

var _ = It("etcd-backup-restore has one TLS configuration for both stores of a copy between S3, OCS and ECS", func(ctx SpecContext) {
	ca, err := os.ReadFile(authority.file)
	Expect(err).NotTo(HaveOccurred())
	withoutCA := storeCase{provider: "openshift", secret: map[string]string{
		"accessKeyID": "{name}", "secretAccessKey": "secret", "region": "r", "endpoint": "https://{address}",
	}}
	withCA := storeCase{provider: "aws", secret: map[string]string{"s3ForcePathStyle": "true", "trustedCaCert": string(ca)}}
	maps.Copy(withCA.secret, withoutCA.secret)
	cloud := startCloud(s3)
	runCopy := func(source, target storeCase) (string, error) {
		noCertificates := GinkgoT().TempDir()
		m := machine{root: GinkgoT().TempDir(), environment: []string{"SSL_CERT_FILE=" + os.DevNull, "SSL_CERT_DIR=" + noCertificates}, secrets: map[string]map[string]string{
			sourceContainer: source.data(cloud, sourceContainer), targetContainer: target.data(cloud, targetContainer),
		}}
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Name: "copy", Namespace: "test-ns"}}
		pod := copybackups.Job(copybackups.Values{
			Task: task, Source: source.store(sourceContainer, sourceContainer), Target: target.store(targetContainer, targetContainer), Image: image,
		}).Spec.Template.Spec
		output, err := m.command(ctx, pod, pod.Containers[0]).CombinedOutput()

		return string(output), err
	}

	By("copying to the store with a CA")
	output, err := runCopy(withoutCA, withCA)
	Expect(err).NotTo(HaveOccurred(), output)

	By("copying from the store with a CA")
	output, err = runCopy(withCA, withoutCA)
	Expect(err).To(HaveOccurred(), output)
	Expect(output).To(And(ContainSubstring("could not get source backups"), ContainSubstring("certificate signed by unknown authority")))
})

// store is the store that the operator resolves.
func (c storeCase) store(container, secret string) backupstore.Store {
	GinkgoHelper()
	spec := druidv1alpha1.StoreSpec{Provider: &c.provider, Container: &container, Prefix: prefix, SecretRef: &corev1.SecretReference{Name: secret}}
	if c.endpointOverride != "" {
		spec.EndpointOverride = &c.endpointOverride
	}
	store, errs := backupstore.FromSpec(spec, "test-ns", "main", field.NewPath("spec"))
	Expect(errs).To(BeEmpty())

	return store
}

// data is the Secret of the name.
func (c storeCase) data(cloud *cloud, name string) map[string]string {
	GinkgoHelper()
	data := map[string]string{"bucketName": name}
	maps.Copy(data, c.secret)
	for key, value := range data {
		data[key] = c.fill(cloud, name, value)
	}

	return data
}

// fill replaces the variables in a string.
func (c storeCase) fill(cloud *cloud, name, text string) string {
	return strings.NewReplacer("{address}", cloud.address(), "{name}", name, "{service account}", serviceAccount(name)).Replace(text)
}

// calls are the expected calls for a container, with the token if there is one.
func (c storeCase) calls(cloud *cloud, container, secret string, operations ...string) []call {
	credential := c.fill(cloud, secret, c.credential)
	var calls []call
	if c.authHost != "" {
		calls = append(calls, call{operation: "auth", host: c.fill(cloud, secret, c.authHost), credential: credential})
	}
	for _, operation := range operations {
		object := prefix + "/v2/" + snapshotName
		if operation == "list" {
			object = prefix
		}
		calls = append(calls, call{operation: operation, host: c.fill(cloud, secret, c.host), container: container, object: object, credential: credential})
	}

	return calls
}

// runner runs containers, and checks the calls of each.
type runner struct {
	machine

	cloud *cloud
}

func newRunner(c storeCase, cloud *cloud) runner {
	GinkgoHelper()

	return runner{cloud: cloud, machine: machine{root: GinkgoT().TempDir(), environment: cloud.environment(), secrets: map[string]map[string]string{
		sourceContainer: c.data(cloud, sourceContainer), targetContainer: c.data(cloud, targetContainer),
	}}}
}

// job runs a container until it exits, and expects exactly the calls.
func (r runner) job(ctx context.Context, pod corev1.PodSpec, container corev1.Container, expected []call) {
	GinkgoHelper()
	output, err := r.command(ctx, pod, container).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	r.check(string(output), expected)
}

// check expects exactly the calls since the last check.
func (r runner) check(output string, expected []call) {
	GinkgoHelper()
	calls, unencrypted := r.cloud.reset()
	// What else a request reads of a container must be at the same host with the same credentials.
	calls = slices.DeleteFunc(calls, func(done call) bool {
		return done.operation == "other" && slices.ContainsFunc(expected, func(other call) bool {
			return done.host == other.host && done.container == other.container && done.credential == other.credential
		})
	})
	Expect(calls).To(ConsistOf(expected), output)
	Expect(unencrypted).To(BeEmpty(), output)
}

// sidecar runs the sidecar of a member with the store until the volume is initialized, and expects exactly the calls.
func (r runner) sidecar(ctx context.Context, store backupstore.Store, expected []call) {
	GinkgoHelper()
	port := freePort()
	pod, config := memberPod(store, port)
	index := slices.IndexFunc(pod.Containers, func(container corev1.Container) bool { return container.Name == "backup-restore" })
	Expect(index).NotTo(Equal(-1))
	command := r.command(ctx, pod, pod.Containers[index])
	Expect(os.WriteFile(filepath.Join(r.root, "etcd.conf.yaml"), []byte(config), 0o600)).To(Succeed())
	command.Env = append(command.Env, "ETCD_CONF="+filepath.Join(r.root, "etcd.conf.yaml"))
	output := gbytes.NewBuffer()
	command.Stdout, command.Stderr = output, output
	Expect(command.Start()).To(Succeed())
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()

	request := func(path string) string {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path)) // #nosec G107 -- the program under test
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())

		return string(body)
	}
	describe := func() string { return string(output.Contents()) }
	Eventually(request).WithContext(ctx).WithArguments("/initialization/status").WithTimeout(time.Minute).WithPolling(20*time.Millisecond).Should(Equal("New"), describe)
	Expect(request("/initialization/start?mode=full")).To(BeEmpty())
	Eventually(func() string {
		status := request("/initialization/status")
		if status == "Failed" {
			StopTrying(describe()).Now()
		}

		return status
	}).WithContext(ctx).WithTimeout(time.Minute).WithPolling(20*time.Millisecond).Should(Equal("Successful"), describe)
	r.check(describe(), expected)
}

// freePort returns a port that no program uses.
func freePort() int32 {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()

	return int32(listener.Addr().(*net.TCPAddr).Port) // #nosec G115 -- a port
}

// memberPod is the pod of a member with the store, and its configuration of etcd.
func memberPod(store backupstore.Store, port int32) (corev1.PodSpec, string) {
	GinkgoHelper()
	obj := fixture.Etcd(fixture.WithStore(string(store.Provider)), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Port = &port })
	values, err := etcd.ValuesFor(etcd.Input{
		Etcd: obj, Replicas: 1, ClusterSize: 1, Store: &store,
		Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "example.com/etcd-wrapper:v1", BackupRestore: image, Init: "example.com/init:v3"}}},
	})
	Expect(err).NotTo(HaveOccurred())
	objects, err := etcd.Objects(values)
	Expect(err).NotTo(HaveOccurred())
	var pod corev1.PodSpec
	var config string
	for _, object := range objects {
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			pod = object.Spec.Template.Spec
		case *corev1.ConfigMap:
			config = object.Data["etcd.conf.yaml"]
		}
	}
	Expect(config).NotTo(BeEmpty())

	return pod, config
}

// serviceAccount is the file of a service account of GCS.
func serviceAccount(name string) string {
	GinkgoHelper()
	key, err := x509.MarshalPKCS8PrivateKey(serviceAccountKey)
	Expect(err).NotTo(HaveOccurred())
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "project", "client_email": name + "@example.com", "private_key_id": "id",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})), "token_uri": "https://oauth2.googleapis.com/token",
	})
	Expect(err).NotTo(HaveOccurred())

	return string(file)
}
