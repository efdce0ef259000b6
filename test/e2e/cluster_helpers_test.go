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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

const unprotectedAnnotation = "druid.gardener.cloud/disable-etcd-component-protection"

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

// expectForbidden expects that the protection rejected the request, and that the message names the annotation that disables it.
func expectForbidden(err error) {
	GinkgoHelper()
	Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("annotate it with "+unprotectedAnnotation))))
}

// memberPod returns the pod of a member of the Etcd main, or an empty pod if it does not exist.
func memberPod(ctx context.Context, ns *framework.TestNamespace, ordinal int) *corev1.Pod {
	GinkgoHelper()

	pod := &corev1.Pod{}
	Expect(client.IgnoreNotFound(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: []string{"main-0", "main-1", "main-2"}[ordinal]}, pod))).To(Succeed())

	return pod
}

// evict creates an Eviction, like kubectl drain.
func evict(ctx context.Context, ns *framework.TestNamespace, pod *corev1.Pod) error {
	return ns.Admin.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}})
}
