// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

// testEtcd is an Etcd in its own namespace.
type testEtcd struct {
	namespace string
	etcd      *druidv1alpha1.Etcd
}

func newTestEtcd(ctx context.Context) *testEtcd {
	GinkgoHelper()
	s := &testEtcd{namespace: env.Namespace(ctx, "shoot--foo")}
	s.etcd = newEtcd(s.namespace, "main")
	return s
}

// newEtcd returns an Etcd with one member, without TLS fields and without a store.
func newEtcd(namespace, name string) *druidv1alpha1.Etcd {
	return &druidv1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       druidv1alpha1.EtcdSpec{Labels: map[string]string{"role": name}, Replicas: 1},
	}
}

func (s *testEtcd) create(ctx context.Context, mutate ...func(*druidv1alpha1.Etcd)) {
	GinkgoHelper()
	for _, m := range mutate {
		m(s.etcd)
	}
	Expect(env.Client.Create(ctx, s.etcd)).To(Succeed())
}

// update updates the Etcd like a user, and requests its reconciliation.
func (s *testEtcd) update(ctx context.Context, mutate func(*druidv1alpha1.Etcd)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), s.etcd); err != nil {
			return err
		}
		mutate(s.etcd)
		metav1.SetMetaDataAnnotation(&s.etcd.ObjectMeta, "gardener.cloud/operation", "reconcile")
		return env.Client.Update(ctx, s.etcd)
	}).Should(Succeed())
}

func (s *testEtcd) annotate(ctx context.Context, key, value string) {
	GinkgoHelper()
	before := s.etcd.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.etcd.ObjectMeta, key, value)
	Expect(env.Client.Patch(ctx, s.etcd, client.MergeFrom(before))).To(Succeed())
}

func (s *testEtcd) read(ctx context.Context, g Gomega) *druidv1alpha1.Etcd {
	etcd := &druidv1alpha1.Etcd{}
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), etcd)).To(Succeed())
	return etcd
}

func (s *testEtcd) get(ctx context.Context, g Gomega, obj client.Object, name string) {
	g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, obj)).To(Succeed())
}

func (s *testEtcd) pod(ctx context.Context, g Gomega) *corev1.Pod {
	pod := &corev1.Pod{}
	s.get(ctx, g, pod, s.etcd.Name+"-0")
	return pod
}

func (s *testEtcd) managedResource(ctx context.Context, g Gomega) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{}
	s.get(ctx, g, mr, "druid-"+s.etcd.Name)
	return mr
}

// recorded returns a function that reads an annotation of the ManagedResource, or a key of its recorded state as JSON.
func (s *testEtcd) recorded(ctx context.Context, key string) func(Gomega) string {
	return func(g Gomega) string {
		mr, record := s.managedResource(ctx, g), map[string]json.RawMessage{}
		if text := mr.Annotations["etcd-druid.extensions.gardener.cloud/"+key]; text != "" {
			return text
		}
		g.Expect(json.Unmarshal([]byte(mr.Annotations["etcd-druid.extensions.gardener.cloud/state"]), &record)).To(Succeed())

		return string(record[key])
	}
}

// awaitReady waits like gardenlet until the newest generation is reconciled.
func (s *testEtcd) awaitReady(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		etcd := s.read(ctx, g)
		g.Expect(etcd.Status.LastErrors).To(BeEmpty())
		g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation)))
		g.Expect(etcd.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
		g.Expect(etcd.Status.Conditions).To(haveCondition("AllMembersUpdated", "True", "AllMembersUpdated"))
		g.Expect(etcd.Status.Ready).To(HaveValue(BeTrue()))
		g.Expect(etcd.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
	}).Should(Succeed())
}

// mounted returns the names of the Secrets that the pod mounts, by volume.
func (s *testEtcd) mounted(ctx context.Context, g Gomega) map[string]string {
	mounted := map[string]string{}
	for _, volume := range s.pod(ctx, g).Spec.Volumes {
		if volume.Secret != nil {
			mounted[volume.Name] = volume.Secret.SecretName
		}
	}
	return mounted
}

// connection returns the TLS credentials in the connection Secret, which applications read.
func (s *testEtcd) connection(ctx context.Context, g Gomega) etcdclient.TLS {
	secret := &corev1.Secret{}
	s.get(ctx, g, secret, s.etcd.Name+"-connection")
	return etcdclient.TLS{CA: secret.Data["ca.crt"], Certificate: secret.Data["tls.crt"], Key: secret.Data["tls.key"]}
}

// connects performs a TLS handshake with the credentials and the server name of the client Service. It returns the error.
func (s *testEtcd) connects(ctx context.Context, g Gomega, credentials etcdclient.TLS) error {
	return environment.Handshake(ctx, env.Client, s.pod(ctx, g), credentials, s.etcd.Name+"-client."+s.namespace+".svc")
}

// issued returns the sorted names of the Secrets that the secrets manager has issued for an Etcd.
func issued(ctx context.Context, g Gomega, namespace, etcdName string) []string {
	list := &corev1.SecretList{}
	g.Expect(env.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"manager-identity": "etcd-druid-" + etcdName})).To(Succeed())
	var names []string
	for _, secret := range list.Items {
		names = append(names, secret.Name)
	}
	slices.Sort(names)
	return names
}

// cas returns the names of the issued client CA Secrets.
func (s *testEtcd) cas(ctx context.Context, g Gomega) []string {
	var names []string
	for _, name := range issued(ctx, g, s.namespace, s.etcd.Name) {
		if strings.HasPrefix(name, s.etcd.Name+"-client-ca-") && !strings.Contains(name, "bundle") {
			names = append(names, name)
		}
	}
	return names
}

// writeCluster writes the Cluster of the namespace like gardenlet, with the state of the CA rotation.
func (s *testEtcd) writeCluster(ctx context.Context, phase gardencorev1beta1.CredentialsRotationPhase, initiatedAt *time.Time) {
	GinkgoHelper()
	shoot := &gardencorev1beta1.Shoot{TypeMeta: metav1.TypeMeta{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot"}}
	if initiatedAt != nil {
		shoot.Status.Credentials = &gardencorev1beta1.ShootCredentials{Rotation: &gardencorev1beta1.ShootCredentialsRotation{
			CertificateAuthorities: &gardencorev1beta1.CARotation{Phase: phase, LastInitiationTime: &metav1.Time{Time: *initiatedAt}},
		}}
	}
	raw, err := json.Marshal(shoot)
	Expect(err).NotTo(HaveOccurred())
	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	_, err = createOrUpdate(ctx, cluster, func() {
		cluster.Spec.Seed = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Seed"}`)}
		cluster.Spec.CloudProfile = runtime.RawExtension{Raw: []byte(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"CloudProfile"}`)}
		cluster.Spec.Shoot = runtime.RawExtension{Raw: raw}
	})
	Expect(err).NotTo(HaveOccurred())
}

// writeEntry creates the BackupEntry of the namespace with its BackupBucket and Secret, like gardenlet. It returns the name of the entry.
func (s *testEtcd) writeEntry(ctx context.Context) string {
	GinkgoHelper()
	name := s.namespace + "--" + string(uuid.NewUUID())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "entry-" + name}}
	Expect(env.Client.Create(ctx, secret)).To(Succeed())
	bucket := &extensionsv1alpha1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: "bucket-of-" + s.namespace}, Spec: extensionsv1alpha1.BackupBucketSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local",
		SecretRef: corev1.SecretReference{Namespace: "garden", Name: secret.Name},
	}}
	Expect(env.Client.Create(ctx, bucket)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(bucket), bucket)).To(Succeed())
		g.Expect(bucket.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
	}).Should(Succeed())
	Expect(env.Client.Create(ctx, &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: extensionsv1alpha1.BackupEntrySpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local", BucketName: bucket.Name,
		SecretRef: corev1.SecretReference{Namespace: "garden", Name: secret.Name},
	}})).To(Succeed())
	return name
}

func createOrUpdate(ctx context.Context, obj client.Object, mutate func()) (bool, error) {
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err == nil {
		mutate()
		return false, env.Client.Update(ctx, obj)
	}
	mutate()
	return true, env.Client.Create(ctx, obj)
}

// haveCondition matches a list that contains a condition with the type, status, reason, and parts of its message.
func haveCondition(conditionType, status, reason string, message ...string) gomegatypes.GomegaMatcher {
	matchers := []gomegatypes.GomegaMatcher{
		HaveField("Type", BeEquivalentTo(conditionType)),
		HaveField("Status", BeEquivalentTo(status)),
		HaveField("Reason", reason),
	}
	for _, part := range message {
		matchers = append(matchers, HaveField("Message", ContainSubstring(part)))
	}
	return ContainElement(And(matchers...))
}
