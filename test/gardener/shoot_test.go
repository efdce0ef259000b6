// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	. "github.com/gardener/gardener/pkg/utils/test/matchers"
	shootoperation "github.com/gardener/gardener/test/utils/shoots/operation"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// reconcileTimeout and deleteTimeout are the limits of Gardener's own end-to-end tests.
	reconcileTimeout = 30 * time.Minute
	deleteTimeout    = 20 * time.Minute
)

// testShoot is a Shoot without workers and what its test knows about it.
type testShoot struct {
	*gardencorev1beta1.Shoot
	// key is that of the Shoot. The writer must not read the Shoot, which the test changes.
	key client.ObjectKey
	// namespace is the namespace of its control plane in the seed.
	namespace string
	// pods are the pods of its Etcds after the last step, each with its UID and the restarts of its containers.
	pods map[string]string

	lock sync.Mutex
	// written are the names of the ConfigMaps whose creation kube-apiserver has acknowledged.
	written []string
}

func newShoot(name string) *testShoot {
	return &testShoot{
		Shoot: &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "garden-local"},
			Spec: gardencorev1beta1.ShootSpec{
				CloudProfile: &gardencorev1beta1.CloudProfileReference{Name: "local"},
				Region:       "local",
				Purpose:      new(gardencorev1beta1.ShootPurposeTesting),
				SeedName:     new(seedName),
				Kubernetes:   gardencorev1beta1.Kubernetes{Version: "1.36.4"},
				Provider:     gardencorev1beta1.Provider{Type: "local"},
			},
		},
		key:       client.ObjectKey{Namespace: "garden-local", Name: name},
		namespace: "shoot--local--" + name,
	}
}

// waitUntilReconciled waits until the last operation of the Shoot has succeeded and all of its conditions are True.
func (s *testShoot) waitUntilReconciled(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(garden.Get(ctx, s.key, s.Shoot)).To(Succeed())
		g.Expect(s.Status.Conditions).NotTo(BeEmpty())
		successful, reason := shootoperation.ReconciliationSuccessful(s.Shoot)
		g.Expect(successful).To(BeTrue(), "%s; last operation: %+v; last errors: %+v", reason, s.Status.LastOperation, s.Status.LastErrors)
	}).WithContext(ctx).WithTimeout(reconcileTimeout).Should(Succeed())
}

// expectEtcdsReady expects that both Etcds are Ready, with the conditions that gardenlet's care evaluates, and returns their pods. The conditions with
// the given types may be Unknown.
func (s *testShoot) expectEtcdsReady(ctx context.Context, unknown ...upstreamv1alpha1.ConditionType) map[string]string {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		etcds := &upstreamv1alpha1.EtcdList{}
		g.Expect(seed.List(ctx, etcds, client.InNamespace(s.namespace))).To(Succeed())
		g.Expect(etcds.Items).To(HaveLen(2))
		for _, etcd := range etcds.Items {
			g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation)), etcd.Name)
			g.Expect(etcd.Status.Ready).To(HaveValue(BeTrue()), etcd.Name)
			g.Expect(len(etcd.Status.Conditions)).To(BeNumerically(">", 10), etcd.Name)
			for _, c := range etcd.Status.Conditions {
				expected := upstreamv1alpha1.ConditionTrue
				if c.Type == upstreamv1alpha1.ConditionTypeClusterIDMismatch || c.Type == "Progressing" { // an earlier version wrote the latter
					expected = upstreamv1alpha1.ConditionFalse
				}
				if !slices.Contains(unknown, c.Type) || c.Status != upstreamv1alpha1.ConditionUnknown {
					g.Expect(c.Status).To(Equal(expected), "%s: %s is %s: %s", etcd.Name, c.Type, c.Reason, c.Message)
				}
			}
		}
	}).WithContext(ctx).WithTimeout(10 * time.Minute).Should(Succeed())

	return s.etcdPods(ctx)
}

// etcdPods returns the UID of each pod of an Etcd, with the restarts of its containers.
func (s *testShoot) etcdPods(ctx context.Context) map[string]string {
	GinkgoHelper()

	pods := &corev1.PodList{}
	Expect(seed.List(ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{"app.kubernetes.io/component": "etcd-statefulset"})).To(Succeed())

	found := map[string]string{}
	for _, pod := range pods.Items {
		restarts := int32(0)
		for _, container := range pod.Status.ContainerStatuses {
			restarts += container.RestartCount
		}

		found[pod.Name] = fmt.Sprintf("%s with %d restarts", pod.UID, restarts)
	}

	return found
}

// expectPods expects that the step has replaced the pods of all Etcds, or none.
func (s *testShoot) expectPods(ctx context.Context, replaced bool) {
	GinkgoHelper()

	before, now := s.pods, s.expectEtcdsReady(ctx)
	s.pods = now
	Expect(maps.Keys(now)).To(ConsistOf("etcd-main-0", "etcd-events-0"))

	for name, pod := range before {
		if replaced {
			uid, _, _ := strings.Cut(pod, " ")
			Expect(now[name]).NotTo(HavePrefix(uid), "%s was not replaced", name)
		} else {
			Expect(now[name]).To(Equal(pod), "%s was replaced, or one of its containers restarted", name)
		}
	}
}

// client returns a client of the Shoot's kube-apiserver. It uses the address of the Service in the seed, because no DNS has the name of the Shoot.
func (s *testShoot) client(ctx context.Context) (client.Client, error) {
	request := &authenticationv1alpha1.AdminKubeconfigRequest{Spec: authenticationv1alpha1.AdminKubeconfigRequestSpec{ExpirationSeconds: new(int64(3600))}}
	shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}}
	if err := garden.SubResource("adminkubeconfig").Create(ctx, shoot, request); err != nil {
		return nil, err
	}

	config, err := clientcmd.RESTConfigFromKubeConfig(request.Status.Kubeconfig)
	if err != nil {
		return nil, err
	}

	// The NetworkPolicies of the seed are enforced.
	if err := seed.Create(ctx, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "allow-this-machine"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "kubernetes", "role": "apiserver"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.250.0.0/16"}}}}},
		},
	}); client.IgnoreAlreadyExists(err) != nil {
		return nil, err
	}

	service := &corev1.Service{}
	if err := seed.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "kube-apiserver"}, service); err != nil {
		return nil, err
	}

	config.Host, config.ServerName, config.Timeout = "https://"+service.Spec.ClusterIP, "kube-apiserver", 5*time.Second

	return client.New(config, client.Options{})
}

// startWriter starts a client that writes to the Shoot until the end of the test.
func (s *testShoot) startWriter() {
	GinkgoHelper()

	writer, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.write(writer)
	}()
	DeferCleanup(func() {
		stop()
		<-done
	})
}

// write creates ConfigMaps in the Shoot until the context ends. It records those that kube-apiserver has acknowledged. After an error, it connects again.
func (s *testShoot) write(ctx context.Context) {
	var shoot client.Client

	start := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		var err error
		if shoot == nil {
			shoot, err = s.client(ctx)
		}

		name := fmt.Sprintf("write-%d-%d", start.Unix(), i)
		if err == nil {
			err = shoot.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}})
		}

		if err != nil {
			shoot = nil
		} else {
			s.lock.Lock()
			s.written = append(s.written, name)
			s.lock.Unlock()
		}

		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// expectWrites expects that kube-apiserver acknowledges another write, and that each acknowledged write is in the Shoot.
func (s *testShoot) expectWrites(ctx context.Context) {
	GinkgoHelper()

	earlier := len(s.acknowledged())
	Eventually(func() int { return len(s.acknowledged()) }).WithContext(ctx).WithTimeout(2*time.Minute).Should(BeNumerically(">", earlier), "no write was acknowledged since the step")

	Eventually(func(g Gomega) {
		acknowledged := s.acknowledged()
		shoot, err := s.client(ctx)
		g.Expect(err).NotTo(HaveOccurred())

		found := &corev1.ConfigMapList{}
		g.Expect(shoot.List(ctx, found, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())

		names := map[string]bool{}
		for _, item := range found.Items {
			names[item.Name] = true
		}

		for _, name := range acknowledged {
			g.Expect(names).To(HaveKey(name), "an acknowledged write is missing")
		}
	}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
}

func (s *testShoot) acknowledged() []string {
	s.lock.Lock()
	defer s.lock.Unlock()

	return append([]string(nil), s.written...)
}

// patch changes the Shoot.
func (s *testShoot) patch(ctx context.Context, change func()) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(garden.Get(ctx, s.key, s.Shoot)).To(Succeed())
		before := s.DeepCopy()
		change()
		g.Expect(garden.Patch(ctx, s.Shoot, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))).To(Succeed())
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
}

// operate requests an operation and waits until it is complete.
func (s *testShoot) operate(ctx context.Context, operation string) {
	GinkgoHelper()
	s.request(ctx, operation)
	s.waitUntilReconciled(ctx)
}

// request requests an operation and waits until gardener-apiserver or gardenlet has accepted it.
func (s *testShoot) request(ctx context.Context, operation string) {
	GinkgoHelper()
	s.patch(ctx, func() { metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1beta1constants.GardenerOperation, operation) })
	Eventually(func(g Gomega) {
		g.Expect(garden.Get(ctx, s.key, s.Shoot)).To(Succeed())
		g.Expect(s.Annotations).NotTo(HaveKey(v1beta1constants.GardenerOperation))
	}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed())
}

var _ = Describe("The life of a Shoot", Ordered, func() {
	shoot := newShoot("life")

	BeforeAll(func() {
		DeferCleanup(shoot.delete)
		shoot.startWriter()
	})

	It("creates the Etcds within the time limits of gardenlet", func(ctx SpecContext) {
		Expect(garden.Create(ctx, shoot.Shoot)).To(Succeed())
		shoot.waitUntilReconciled(ctx)
		shoot.pods = shoot.expectEtcdsReady(ctx)
		Expect(maps.Keys(shoot.pods)).To(ConsistOf("etcd-main-0", "etcd-events-0"))

		shoot.expectWrites(ctx)
	})

	It("keeps the data while the Shoot is hibernated", func(ctx SpecContext) {
		shoot.patch(ctx, func() { shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: new(true)} })
		shoot.waitUntilReconciled(ctx)
		Eventually(shoot.etcdPods).WithContext(ctx).WithTimeout(time.Minute).Should(BeEmpty())

		shoot.patch(ctx, func() { shoot.Spec.Hibernation.Enabled = new(false) })
		shoot.waitUntilReconciled(ctx)
		shoot.expectPods(ctx, true)
		shoot.expectWrites(ctx)
	})

	It("rotates the CAs", func(ctx SpecContext) {
		for _, operation := range []string{v1beta1constants.OperationRotateCAStart, v1beta1constants.OperationRotateCAComplete} {
			shoot.operate(ctx, operation)
			shoot.expectPods(ctx, true)
			shoot.expectWrites(ctx)
		}

		Expect(shoot.Status.Credentials.Rotation.CertificateAuthorities.Phase).To(Equal(gardencorev1beta1.RotationCompleted))
	})

	It("rotates the encryption key, for which gardenlet requests a full snapshot", func(ctx SpecContext) {
		shoot.operate(ctx, v1beta1constants.OperationRotateETCDEncryptionKey)
		Expect(shoot.Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(Equal(gardencorev1beta1.RotationCompleted))
		shoot.expectPods(ctx, false)
		shoot.expectWrites(ctx)
	})

	It("receives changed credentials of the backup", func(ctx SpecContext) {
		changed := []byte(time.Now().String())

		// provider-local generates credentials for each bucket. After a change of the garden's Secret, gardenlet reconciles the bucket, and copies them
		// to the garden. The next reconciliation of a Shoot reads them there.
		buckets := &extensionsv1alpha1.BackupBucketList{}
		Expect(seed.List(ctx, buckets)).To(Succeed())
		Expect(buckets.Items).To(HaveLen(1))
		generated := buckets.Items[0].Status.GeneratedSecretRef
		setKey(ctx, seed, client.ObjectKey{Namespace: generated.Namespace, Name: generated.Name}, changed)
		setKey(ctx, garden, client.ObjectKey{Namespace: "garden", Name: "backup"}, changed)
		expectKey(ctx, garden, client.ObjectKey{Namespace: "garden", Name: generated.Name}, changed)

		shoot.operate(ctx, v1beta1constants.GardenerOperationReconcile)
		expectKey(ctx, seed, client.ObjectKey{Namespace: shoot.namespace, Name: "etcd-backup"}, changed)
		shoot.expectPods(ctx, false)
		shoot.expectWrites(ctx)
	})

	It("removes the Etcds, their backups and the namespace with the Shoot", func(ctx SpecContext) {
		shoot.delete(ctx)
		Expect(seed.Get(ctx, client.ObjectKey{Name: shoot.namespace}, &corev1.Namespace{})).To(BeNotFoundError())

		entries := &extensionsv1alpha1.BackupEntryList{}
		Eventually(func(g Gomega) {
			g.Expect(seed.List(ctx, entries)).To(Succeed())
			g.Expect(entries.Items).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
	})
})

// setKey sets the key `changed` of a Secret.
func setKey(ctx context.Context, cluster client.Client, key client.ObjectKey, value []byte) {
	GinkgoHelper()

	secret := &corev1.Secret{}
	Expect(cluster.Get(ctx, key, secret)).To(Succeed())
	before := secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}

	secret.Data["changed"] = value
	Expect(cluster.Patch(ctx, secret, client.MergeFrom(before))).To(Succeed())
}

// expectKey expects that the key `changed` of a Secret gets the value.
func expectKey(ctx context.Context, cluster client.Client, key client.ObjectKey, value []byte) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		secret := &corev1.Secret{}
		g.Expect(cluster.Get(ctx, key, secret)).To(Succeed())
		g.Expect(secret.Data).To(HaveKeyWithValue("changed", value))
	}).WithContext(ctx).WithTimeout(5 * time.Minute).Should(Succeed())
}

// delete deletes the Shoot and waits until it is gone.
func (s *testShoot) delete(ctx SpecContext) {
	GinkgoHelper()

	if apierrors.IsNotFound(garden.Get(ctx, s.key, s.Shoot)) {
		return
	}

	Expect(gardenerutils.ConfirmDeletion(ctx, garden, s.Shoot)).To(Succeed())
	Expect(client.IgnoreNotFound(garden.Delete(ctx, s.Shoot))).To(Succeed())
	Eventually(func() error { return garden.Get(ctx, s.key, s.Shoot) }).
		WithContext(ctx).WithTimeout(deleteTimeout).Should(BeNotFoundError())
}
