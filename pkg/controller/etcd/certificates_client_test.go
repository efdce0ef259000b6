// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"slices"

	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
)

// secretReads counts the requests for Secrets that the secrets manager has issued.
type secretReads struct {
	client.Client
	// Gets and Lists are how many requests were sent.
	Gets, Lists int
	// writeError is the answer to each write. Nil: the answer of the API server.
	writeError error
}

// Get implements client.Client.
func (c *secretReads) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	if secret, is := obj.(*corev1.Secret); is && (apierrors.IsNotFound(err) || secret.Labels[secretsmanager.LabelKeyManagedBy] != "") {
		c.Gets++
	}

	return err
}

// List implements client.Client.
func (c *secretReads) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*corev1.SecretList); is {
		c.Lists++
	}

	return c.Client.List(ctx, list, opts...)
}

// Patch implements client.Client.
func (c *secretReads) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if c.writeError != nil {
		return c.writeError
	}

	return c.Client.Patch(ctx, obj, patch, opts...)
}

var _ = Describe("The client of the secrets manager", func() {
	var (
		ctx      = context.Background()
		requests *secretReads
		issued   client.Client
	)
	managed := func(name, config string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: map[string]string{
			secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager, secretsmanager.LabelKeyManagerIdentity: "main", secretsmanager.LabelKeyName: config,
		}}}
	}
	list := func(labels client.MatchingLabels) []string {
		GinkgoHelper()
		found := &corev1.SecretList{}
		Expect(issued.List(ctx, found, client.InNamespace("demo"), labels)).To(Succeed())
		names := []string{}
		for _, secret := range found.Items {
			names = append(names, secret.Name)
		}

		return names
	}
	all := func() []string {
		GinkgoHelper()
		return list(client.MatchingLabels{secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager, secretsmanager.LabelKeyManagerIdentity: "main"})
	}
	get := func(name string) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		return secret, issued.Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, secret)
	}

	BeforeEach(func() {
		requests = &secretReads{Client: newCluster().Client(nil)}
		issued = etcd.NewIssuedClient(requests)
		other := managed("other", "ca")
		other.Labels[secretsmanager.LabelKeyManagerIdentity] = "events"
		for _, secret := range []*corev1.Secret{managed("ca", "ca"), managed("ca-old", "ca"), managed("server", "server"), other} {
			must(requests.Client.Create(ctx, secret))
		}
	})

	It("answers all reads of Secrets that it has listed", func() {
		Expect(all()).To(Equal([]string{"ca", "ca-old", "server"}))
		Expect(list(client.MatchingLabels{
			secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager, secretsmanager.LabelKeyManagerIdentity: "main", secretsmanager.LabelKeyName: "ca",
		})).To(Equal([]string{"ca", "ca-old"}))
		Expect(get("server")).To(HaveField("Name", "server"))
		Expect(requests).To(And(HaveField("Lists", 1), HaveField("Gets", 0)))
	})

	It("reads what it has not listed", func() {
		all()
		_, err := get("missing")
		Expect(err).To(MatchError(apierrors.IsNotFound, "not found"))
		Expect(get("other")).To(HaveField("Name", "other"))
		Expect(requests.Gets).To(Equal(2))
		Expect(list(client.MatchingLabels{secretsmanager.LabelKeyUseDataForName: "ca"})).To(BeEmpty())
		Expect(list(client.MatchingLabels{secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager, secretsmanager.LabelKeyManagerIdentity: "events"})).
			To(Equal([]string{"other"}))
		Expect(requests.Lists).To(Equal(3))
	})

	It("returns copies", func() {
		all()
		secret, err := get("ca")
		Expect(err).NotTo(HaveOccurred())
		secret.Labels["changed"] = "true"
		Expect(get("ca")).To(HaveField("Labels", Not(HaveKey("changed"))))
	})

	It("answers with what it has written", func() {
		all()
		Expect(issued.Create(ctx, managed("peer", "peer"))).To(Succeed())
		secret, err := get("ca")
		Expect(err).NotTo(HaveOccurred())
		before := secret.DeepCopy()
		secret.Labels["changed"] = "true"
		Expect(issued.Patch(ctx, secret, client.MergeFrom(before))).To(Succeed())
		Expect(issued.Delete(ctx, managed("ca-old", "ca"))).To(Succeed())

		Expect(get("ca")).To(HaveField("Labels", HaveKey("changed")))
		Expect(all()).To(Equal([]string{"ca", "peer", "server"}))
		Expect(requests).To(And(HaveField("Lists", 1), HaveField("Gets", 0)))
		_, err = get("ca-old")
		Expect(err).To(MatchError(apierrors.IsNotFound, "not found"))
	})

	It("reads again after a write that failed, since the API server may have executed it", func() {
		all()
		requests.writeError = errors.New("timeout")
		secret := managed("ca", "ca")
		Expect(issued.Patch(ctx, secret, client.MergeFrom(secret.DeepCopy()))).To(MatchError("timeout"))
		Expect(get("ca")).To(HaveField("Name", "ca"))
		Expect(requests.Gets).To(Equal(1))
		Expect(all()).To(HaveLen(3))
		Expect(requests.Lists).To(Equal(2))
	})

	It("needs one list to reconcile an Etcd whose certificates are issued", func() {
		k := newCluster()
		create(3, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })(k)
		o := startOperator(k, nil)
		o.run()
		requests := &secretReads{Client: k.Client(nil)}
		o.reconciler.Client = writeguard.CountWrites(requests)

		o.reconcileOnce()
		Expect(requests).To(And(HaveField("Lists", 1), HaveField("Gets", 0)))
	})

	It("generates keys while the Etcd has a slot, which Etcds that run get before new ones", func() {
		k := newCluster()
		create(1, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })(k)
		o, slots := startOperator(k, nil), calls.NewSlots(1, k.Clock)
		o.reconciler.Issuing = slots
		issuedSecrets := func() []corev1.Secret {
			GinkgoHelper()
			list := &corev1.SecretList{}
			must(k.Client(nil).List(ctx, list, client.MatchingLabels{secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager}))

			return list.Items
		}
		other, first := client.ObjectKey{Namespace: "demo", Name: "other"}, client.ObjectKey{Namespace: "demo", Name: "new"}
		release, acquired := slots.Acquire(other, false)
		Expect(acquired).To(BeTrue())
		o.reconcileOnce()
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(
			HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Message", "Waiting until the operator has generated the certificates of other Etcds"),
		)))
		Expect(issuedSecrets()).To(BeEmpty())
		release()
		o.run()
		succeeded(1, 1)(k)

		release, acquired = slots.Acquire(other, false)
		Expect(acquired).To(BeTrue(), "the Etcd has released its slot")
		_, acquired = slots.Acquire(first, false)
		Expect(acquired).To(BeFalse())
		before := issuedSecrets()
		deleted := &before[slices.IndexFunc(before, func(secret corev1.Secret) bool { return secret.Labels[secretsmanager.LabelKeyName] == "main-client" })]
		deleted.Finalizers = nil
		must(k.Client(nil).Update(ctx, deleted))
		must(k.Client(nil).Delete(ctx, deleted))
		o.reconcileOnce()
		Expect(issuedSecrets()).To(HaveLen(len(before) - 1))
		release()
		_, acquired = slots.Acquire(first, false)
		Expect(acquired).To(BeFalse(), "the slot is for the Etcd that runs")
		o.run()
		Expect(issuedSecrets()).To(HaveLen(len(before)))
		_, acquired = slots.Acquire(first, false)
		Expect(acquired).To(BeTrue())
	})
})

var _ = DescribeTable("The number of workers that generate keys", func(workers, cpus, expected int) {
	Expect(etcd.SlotsOf(workers, cpus)).To(Equal(expected))
},
	Entry("is one for the default workers and two CPUs", 3, 2, 1),
	Entry("leaves a third of the workers free", 3, 64, 2),
	Entry("leaves half of the CPUs free", 30, 8, 4),
	Entry("is at least one", 1, 1, 1),
	Entry("is one for a controller without a number of workers", 0, 8, 1),
)
