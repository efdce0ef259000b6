// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
)

var _ = DescribeTable("The accounts with rights on the objects of Etcds", func(namespace string, expected ...string) {
	protection := configv1alpha1.EtcdComponentProtectionWebhookConfiguration{
		ServiceAccountInfo:    &configv1alpha1.ServiceAccountInfo{Namespace: namespace, Name: "etcd-druid"},
		ExemptServiceAccounts: []string{"system:serviceaccount:kube-system:generic-garbage-collector"},
	}
	Expect(app.AccountsFor(protection, namespace).Exempt).To(ConsistOf(expected))
},
	Entry("contain gardener-resource-manager in place of gardenlet's etcd-druid", "garden",
		"system:serviceaccount:garden:etcd-druid", "system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:garden:gardener-resource-manager"),
	Entry("are those of the configuration in another namespace", "etcd-druid",
		"system:serviceaccount:etcd-druid:etcd-druid", "system:serviceaccount:kube-system:generic-garbage-collector"),
)
