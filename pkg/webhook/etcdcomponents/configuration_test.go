// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents_test

import (
	extensionswebhookcmd "github.com/gardener/gardener/extensions/pkg/webhook/cmd"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/registration"
)

var _ = Describe("Configuration", func() {
	selectors := func(namespaces ...string) []*metav1.LabelSelector {
		var found []*metav1.LabelSelector
		for _, webhook := range etcdcomponents.Webhooks(registration.Options{Server: &extensionswebhookcmd.ServerConfig{}}.ClientConfig, etcdcomponents.Accounts{}, namespaces...) {
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
