// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// SecretsValid is True if every Secret that pods need exists, and every certificate in use is valid.
func SecretsValid(in Input) *druidv1alpha1.Condition {
	parts := []*druidv1alpha1.Condition{secretsAvailable(in)}
	if certificates := certificatesValid(in); certificates != nil {
		parts = append(parts, certificates)
	}

	return combined(parts...)
}

// secretsAvailable is True if every Secret that the spec references for pods exists with its keys, and none is being deleted. Its
// message also reports plaintext client traffic and the reason.
func secretsAvailable(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeSecretsValid
	if failure := in.Observation.Failure(etcdcluster.SectionSecrets); failure != "" {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchSecrets, failure)
	}
	if missing := etcdcluster.MissingSecrets(in.Observation); len(missing) > 0 {
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSecretsMissing, strings.Join(missing, "; "))
	}
	if terminating := etcdcluster.TerminatingSecrets(in.Observation); len(terminating) > 0 {
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSecretsTerminating, strings.Join(terminating, "; "))
	}
	message := "Every Secret that pods need exists"
	if statefulSet := in.Observation.StatefulSet; statefulSet.Exists && statefulSet.TLS.ClientCA == "" {
		message += "; clients are served plaintext, since " + plaintextReason(in.Etcd)
	}

	return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSecretsValid, message)
}

func plaintextReason(etcd *druidv1alpha1.Etcd) string {
	if enable := etcd.Spec.Etcd.EnableTLS; enable != nil && !*enable {
		return "spec.etcd.enableTLS is false"
	}

	return "no certificates are named or issued: set spec.etcd.enableTLS to true to have them issued"
}
