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

var _ = DescribeTable("The default version of etcd", func(gates map[string]bool, expected string) {
	Expect(app.DefaultEtcdVersion(&configv1alpha1.OperatorConfiguration{FeatureGates: gates})).To(Equal(expected))
},
	Entry("is 3.4 without the feature gate", nil, "3.4"),
	Entry("is 3.4 if the feature gate is disabled", map[string]bool{"UpgradeEtcdVersion": false}, "3.4"),
	Entry("is the newest one with the feature gate", map[string]bool{"UpgradeEtcdVersion": true}, "3.5"),
)
