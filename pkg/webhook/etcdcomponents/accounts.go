// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents

import (
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
)

// TrustedUsers are the components of the control plane, for clusters whose controllers do not use their own service accounts.
var TrustedUsers = []string{"system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"}

// TrustedGroups are the kubelets and the controllers of the cluster, such as the namespace controller and the garbage
// collector. RBAC limits what they may do.
var TrustedGroups = []string{"system:nodes", "system:serviceaccounts:kube-system"}

// Accounts are the users with rights on the objects of Etcds.
type Accounts struct {
	// Exempt may change and delete all objects: the operator, gardener-resource-manager, and the users in the configuration.
	Exempt []string
	// Drainers may delete pods.
	Drainers []string
}

// AccountsFor returns the accounts of a valid configuration.
func AccountsFor(config configv1alpha1.EtcdComponentProtectionWebhookConfiguration) Accounts {
	var accounts Accounts

	if fqdn := config.ReconcilerServiceAccountFQDN; fqdn != nil {
		accounts.Exempt = append(accounts.Exempt, *fqdn)
	}

	if info := config.ServiceAccountInfo; info != nil {
		accounts.Exempt = append(accounts.Exempt, fmt.Sprintf("system:serviceaccount:%s:%s", info.Namespace, info.Name))
	}

	accounts.Exempt = slices.Concat(accounts.Exempt, config.ExemptServiceAccounts, config.ExemptUsers)
	accounts.Drainers = config.Drainers

	return accounts
}

// IsTrusted is true for a user who may change and delete all objects.
func (a Accounts) IsTrusted(user authenticationv1.UserInfo) bool {
	return slices.Contains(a.Exempt, user.Username) || slices.Contains(TrustedUsers, user.Username) ||
		slices.ContainsFunc(user.Groups, func(group string) bool { return slices.Contains(TrustedGroups, group) })
}
