// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/resourcemanager"
)

var _ = DescribeTable("A Deployment with the name of gardener-resource-manager",
	func(namespace string, replicas *int32, others []client.ObjectKey, failure gomegatypes.GomegaMatcher) {
		c := fakeclient.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithIndex(&appsv1.Deployment{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
			WithObjects(
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "gardener-resource-manager", Namespace: namespace}, Spec: appsv1.DeploymentSpec{Replicas: replicas}},
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "garden"}},
			).Build()
		found, err := resourcemanager.FindInstalled(context.Background(), c)
		Expect(err).To(failure)
		Expect(found).To(Equal(others))
	},
	Entry("of Gardener prevents the start", "garden", new(int32(2)), nil, MatchError(ContainSubstring("Deployment garden/gardener-resource-manager"))),
	Entry("of Gardener with the default number of replicas prevents the start", "garden", nil, nil, HaveOccurred()),
	Entry("without replicas is reported", "garden", new(int32(0)), []client.ObjectKey{{Namespace: "garden", Name: "gardener-resource-manager"}}, Not(HaveOccurred())),
	Entry("of a tenant is reported", "tenant", new(int32(2)), []client.ObjectKey{{Namespace: "tenant", Name: "gardener-resource-manager"}}, Not(HaveOccurred())),
)
