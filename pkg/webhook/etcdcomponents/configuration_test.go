// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
)

var _ = Describe("Configuration", func() {
	selectors := func(namespaces ...string) []*metav1.LabelSelector {
		var found []*metav1.LabelSelector
		for _, webhook := range etcdcomponents.Configuration("name", admissionregistrationv1.WebhookClientConfig{}, etcdcomponents.Accounts{}, namespaces...).Webhooks {
			found = append(found, webhook.NamespaceSelector)
		}

		return found
	}

	It("selects the objects of all namespaces, or only of the watched ones", func() {
		Expect(selectors()).To(HaveEach(BeNil()))
		Expect(selectors("team-a", "team-b")).To(HaveEach(Equal(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: "In", Values: []string{"team-a", "team-b"}},
		}})))
	})
})
