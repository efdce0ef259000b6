// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/registration"
)

// Path is the URL path of the webhook, without its secret segment: the webhook trusts the request, and begins a surge.
const Path = "/webhooks/eviction"

// AddToManager serves the webhook at the path in every replica. The update strategy is the default of Etcds without one.
func AddToManager(mgr manager.Manager, path string, updateStrategy druidv1alpha1.UpdateStrategy) {
	mgr.GetWebhookServer().Register(path, &webhook.Admission{
		Handler:        &Handler{Client: mgr.GetClient(), Nodes: mgr.GetAPIReader(), Clock: clock.RealClock{}, UpdateStrategy: updateStrategy},
		RecoverPanic:   new(true),
		LogConstructor: admission.DefaultLogConstructor,
	})
}

// Webhooks returns the webhook for evictions at the path. It fails open. If there are namespaces, it selects only their pods. The match condition can
// use only the name of the pod. It selects the ordinals of a surge, 0 and 1.
func Webhooks(client func(path string) admissionregistrationv1.WebhookClientConfig, path string, namespaces ...string) []admissionregistrationv1.ValidatingWebhook {
	return []admissionregistrationv1.ValidatingWebhook{{
		Name:         "eviction.webhooks.druid.gardener.cloud",
		ClientConfig: client(path),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}, Scope: new(admissionregistrationv1.NamespacedScope)},
		}},
		FailurePolicy:           new(admissionregistrationv1.Ignore),
		MatchPolicy:             new(admissionregistrationv1.Exact),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          new(int32(5)),
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       registration.NamespaceSelector(namespaces...),
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "may-be-the-only-member", Expression: "request.name.endsWith('-0') || request.name.endsWith('-1')"},
		},
	}}
}
