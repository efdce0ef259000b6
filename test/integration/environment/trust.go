// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// AwaitTrust waits until the API server applies the roles of a ServiceAccount and the policies of a chart. Until then,
// the API server rejects the requests of the operator to change the objects of Etcds. All installations use the same
// names of policies, and the API server reads changed policies once a second, or later on a busy machine. No operator
// may run, because an Etcd exists meanwhile. The watched namespace is one in which the ServiceAccount has a Role. Empty: it has a
// ClusterRole.
func (e *Environment) AwaitTrust(ctx context.Context, namespace, account, watched string) {
	GinkgoHelper()

	user, groups := "system:serviceaccount:"+namespace+":"+account, []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	may := func(right authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &right}}
		err := e.Client.Create(ctx, review)

		return review.Status.Allowed, err
	}
	Eventually(may).WithArguments(authorizationv1.ResourceAttributes{Verb: "list", Group: "druid.gardener.cloud", Resource: "etcds", Namespace: watched}).
		Should(BeTrue(), "%s can list Etcds", user)
	Eventually(func() (bool, error) {
		election := authorizationv1.ResourceAttributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace}
		if allowed, err := may(election); allowed || err != nil {
			return allowed, err
		}
		election.Namespace = "garden" // the namespace of the leader election in a seed

		return may(election)
	}).Should(BeTrue(), "%s can update the leader election Lease", user)

	trusted, probes := e.ClientOf(user, groups...), probesIn(e.Namespace(ctx, "trust"))
	for _, probe := range probes {
		Expect(e.Client.Create(ctx, probe)).To(Succeed())
	}

	Eventually(func(g Gomega) {
		for _, probe := range probes {
			// The API server calls webhooks after the policies. A webhook of another component may still reject the request.
			if err := trusted.Delete(ctx, probe, client.DryRunAll); err != nil {
				g.Expect(err.Error()).NotTo(ContainSubstring("ValidatingAdmissionPolicy"))
			}
		}
	}).Should(Succeed(), "the policies allow requests of %s", user)

	// Once the Etcd is deleted, no policy protects the other probes.
	Expect(trusted.Delete(ctx, probes[0])).To(Succeed())
}

// probesIn returns an Etcd and one object of an Etcd for each policy.
func probesIn(namespace string) []client.Object {
	etcd := fixture.Etcd(fixture.WithNamespace(namespace), fixture.WithName("probe"))
	etcd.UID, etcd.Generation = "", 0
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}

	return []client.Object{
		etcd,
		&corev1.ConfigMap{ObjectMeta: meta("component", map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "probe"})},
		&corev1.Secret{ObjectMeta: meta("managedresource", map[string]string{"origin": "gardener-extension-etcd-druid", "app.kubernetes.io/part-of": "probe"})},
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("probe-probe-0", nil), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	}
}
