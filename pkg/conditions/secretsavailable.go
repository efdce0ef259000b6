// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// SecretsAvailable is True when every Secret that pods need exists with its keys. It also says when the cluster serves
// plaintext because the spec names no Secrets for TLS.
func SecretsAvailable(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeSecretsAvailable
	if failure := in.Observation.Failure(etcdcluster.SectionSecrets); failure != "" {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchSecrets, failure)
	}
	if missing := etcdcluster.MissingSecrets(in.Observation); len(missing) > 0 {
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSecretsMissing, strings.Join(missing, "; "))
	}
	message := "Every Secret that pods need exists"
	if helper.ClientTLS(in.Etcd) == nil {
		message += "; clients are served plaintext, since " + whyPlaintext(in.Etcd)
	}

	return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSecretsAvailable, message)
}

func whyPlaintext(etcd *druidv1alpha1.Etcd) string {
	if enable := etcd.Spec.Etcd.EnableTLS; enable != nil && !*enable {
		return "spec.etcd.enableTLS is false"
	}

	return "spec.etcd.clientUrlTls names no Secrets"
}
