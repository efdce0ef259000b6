// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
)

// accountsFor returns the accounts of the configuration. In the namespace of Gardener's components, gardener-resource-manager is exempt
// too: it applies the objects of the operator. The configuration that gardenlet and gardener-operator write for etcd-druid does not name it.
func accountsFor(protection configv1alpha1.EtcdComponentProtectionWebhookConfiguration, namespace string) etcdcomponents.Accounts {
	accounts := etcdcomponents.AccountsFor(protection)
	if namespace == v1beta1constants.GardenNamespace {
		accounts.Exempt = append(accounts.Exempt, fmt.Sprintf("system:serviceaccount:%s:%s", namespace, v1beta1constants.DeploymentNameGardenerResourceManager))
	}

	return accounts
}
