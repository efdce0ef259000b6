// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The deletion of an Etcd", func() {
	It("deletes all objects, except for the volume if the retention policy is Retain", SpecPriority(5), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "deletion")
		retained := fixture.Etcd(fixture.WithName("retained"), withLocalStore(ns))
		deleted := fixture.Etcd(fixture.WithName("deleted"), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicy("DeleteAll"))
			etcd.Finalizers = []string{"druid.gardener.cloud/etcd"} // manifests for etcd-druid may contain it
		})
		before := objectsIn(ctx, ns)
		ns.Create(ctx, retained, deleted)
		ns.EventuallyReady(ctx, retained)
		ns.EventuallyReady(ctx, deleted)

		writeLog := ns.NewWriteLog(retained)
		writeLog.Write(ctx, 20)
		claim := ns.Claim(ctx, retained)

		By("deleting both Etcds")
		Expect(ns.Client.Delete(ctx, retained)).To(Succeed())
		Expect(ns.Client.Delete(ctx, deleted)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, retained) && ns.IsGone(ctx, deleted) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		expectRemaining(ctx, ns, append(before, "PersistentVolumeClaim retained-retained-0")...)

		By("creating the Etcd again, with the retained volume")
		retained = fixture.Etcd(fixture.WithName("retained"), withLocalStore(ns))
		ns.Create(ctx, retained)
		ns.EventuallyReady(ctx, retained)
		Expect(ns.Claim(ctx, retained).UID).To(Equal(claim.UID))
		ns.NewWriteLog(retained).ExpectContained(ctx, writeLog.Written())
	}, SpecTimeout(specTimeout))

	It("succeeds while the namespace is terminating", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "deletion-namespace")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
		Expect(ns.Client.Delete(ctx, namespace)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, namespace) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
	}, SpecTimeout(specTimeout))
})

// objectsIn returns all objects in the namespace, each as kind and name. It omits events and the objects that every
// namespace has.
func objectsIn(ctx context.Context, ns *framework.TestNamespace) []string {
	GinkgoHelper()

	found := []string{}

	for _, list := range []client.ObjectList{
		&resourcesv1alpha1.ManagedResourceList{}, &appsv1.StatefulSetList{}, &appsv1.ControllerRevisionList{}, &batchv1.JobList{},
		&coordinationv1.LeaseList{}, &corev1.ConfigMapList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{},
		&corev1.SecretList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		Expect(ns.Client.List(ctx, list, client.InNamespace(ns.Name))).To(Succeed())
		Expect(meta.EachListItem(list, func(object runtime.Object) error {
			kind, err := ns.Client.GroupVersionKindFor(object)
			name := object.(client.Object).GetName()

			if !isInEveryNamespace(kind.Kind, name) {
				found = append(found, fmt.Sprintf("%s %s", kind.Kind, name))
			}

			return err
		})).To(Succeed())
	}

	return found
}

// expectRemaining expects that no other objects of the deleted Etcds exist. The ControllerRevisions of the StatefulSet
// are an exception, because the garbage collector of Kubernetes deletes them later.
func expectRemaining(ctx context.Context, ns *framework.TestNamespace, remaining ...string) {
	GinkgoHelper()

	found := slices.DeleteFunc(objectsIn(ctx, ns), func(name string) bool { return strings.HasPrefix(name, "ControllerRevision ") })
	Expect(found).To(ConsistOf(remaining), "an Etcd is deleted after all its objects")
	Eventually(objectsIn).WithContext(ctx).WithArguments(ns).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(ConsistOf(remaining))
}

func isInEveryNamespace(kind, name string) bool {
	return kind == "ServiceAccount" && name == "default" || kind == "ConfigMap" && name == "kube-root-ca.crt"
}
