// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents

import (
	"fmt"
	"strings"

	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/registration"
)

// Path is the URL path of the webhook. gardenlet and the chart of etcd-druid depend on it.
const Path = "/webhooks/etcdcomponents"

// Webhooks returns the webhooks for the objects that the policies cannot select. They fail closed. Their match conditions select
// only requests for objects of an Etcd by other users than the accounts. No other request depends on them. If there are
// namespaces, they select only requests for their objects.
func Webhooks(client func(path string) admissionregistrationv1.WebhookClientConfig, accounts Accounts, namespaces ...string) []admissionregistrationv1.ValidatingWebhook {
	webhook := func(prefix string, rule admissionregistrationv1.Rule, operations []admissionregistrationv1.OperationType, isPartOfEtcd string) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name:                    prefix + ".etcdcomponents.webhooks.druid.gardener.cloud",
			ClientConfig:            client(Path),
			Rules:                   []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: rule}},
			FailurePolicy:           new(admissionregistrationv1.Fail),
			MatchPolicy:             new(admissionregistrationv1.Exact),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(10)),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       registration.NamespaceSelector(namespaces...),
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "concerns-an-etcd", Expression: isPartOfEtcd},
				{Name: "by-a-stranger", Expression: byOtherUser(accounts)},
			},
		}
	}

	scale := webhook("stsscale",
		admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets/scale"}, Scope: new(admissionregistrationv1.NamespacedScope)},
		[]admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		fmt.Sprintf("has(oldObject.status.selector) && '%s=%s' in oldObject.status.selector.split(',')", druidv1alpha1.LabelManagedByKey, druidv1alpha1.LabelManagedByValue))
	issued := webhook("secrets",
		admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}, Scope: new(admissionregistrationv1.NamespacedScope)},
		[]admissionregistrationv1.OperationType{admissionregistrationv1.Update, admissionregistrationv1.Delete},
		fmt.Sprintf("has(oldObject.metadata.labels) && '%[1]s' in oldObject.metadata.labels && oldObject.metadata.labels['%[1]s'].startsWith('etcd-druid-')", secretsmanager.LabelKeyManagerIdentity))
	issued.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager}}

	return []admissionregistrationv1.ValidatingWebhook{issued, scale}
}

// byOtherUser is the match condition for users who may not change everything.
func byOtherUser(accounts Accounts) string {
	return fmt.Sprintf("!(request.userInfo.username in %s) && !request.userInfo.groups.exists(g, g in %s)",
		list(append(append([]string{}, TrustedUsers...), accounts.Exempt...)), list(TrustedGroups))
}

// list returns the strings as a CEL list.
func list(values []string) string {
	quoted := make([]string, 0, len(values))
	for _, value := range values {
		quoted = append(quoted, "'"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value)+"'")
	}

	return "[" + strings.Join(quoted, ", ") + "]"
}
