// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

var _ = Describe("Ownership", func() {
	const group = "druid.gardener.cloud/v1alpha1"

	etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: "new"}}
	ours := map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main"}
	owner := func(apiVersion, kind, name, uid string, controller bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: &controller}}
	}

	DescribeTable("of an object", func(labels map[string]string, owners []metav1.OwnerReference, isOwned, isOfPrevious bool) {
		object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "main", Labels: labels, OwnerReferences: owners}}
		Expect(helper.IsOwned(object, etcd)).To(Equal(isOwned), "owned")
		Expect(helper.IsOwnedByPrevious(object, etcd)).To(Equal(isOfPrevious), "owned by a previous Etcd")
	},
		Entry("the Etcd is the controller", nil, owner(group, "Etcd", "main", "new", true), true, false),
		Entry("the Etcd is an owner, and the labels are there", ours, owner(group, "Etcd", "main", "new", false), true, false),
		Entry("the Etcd is an owner without the labels", nil, owner(group, "Etcd", "main", "new", false), false, false),
		Entry("nothing is there", nil, nil, false, false),
		Entry("only the labels are there", ours, nil, false, false),
		Entry("a previous Etcd of the name is the controller", ours, owner(group, "Etcd", "main", "old", true), false, true),
		Entry("a previous Etcd in another version of the API is the controller", ours, owner("druid.gardener.cloud/v1beta1", "Etcd", "main", "old", true), false, true),
		Entry("an Etcd of another name is the controller", ours, owner(group, "Etcd", "p-main", "other", true), false, false),
		Entry("another kind of the name is the controller", ours, owner(group, "EtcdOpsTask", "main", "other", true), false, false),
		Entry("the kind of another group is the controller", ours, owner("etcd.database.coreos.com/v1beta2", "Etcd", "main", "other", true), false, false),
	)

	DescribeTable("of a claim", func(labels map[string]string, expected bool) {
		Expect(helper.IsClaimOf(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, etcd)).To(Equal(expected))
	},
		Entry("the labels of today", ours, true),
		Entry("the labels of today and others", map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main", "a": "b"}, true),
		Entry("the labels of the first versions", map[string]string{"name": "etcd", "instance": "main"}, true),
		Entry("the labels of another Etcd", map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "other"}, false),
		Entry("the first labels of another Etcd", map[string]string{"name": "etcd", "instance": "other"}, false),
		Entry("the part of something else", map[string]string{"app.kubernetes.io/managed-by": "helm", "app.kubernetes.io/part-of": "main"}, false),
		Entry("no labels", nil, false),
	)
})
