// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// expiringSoon is the time before the expiration of a certificate at which the condition warns. It is a tenth of the validity
// if that is less. Renewal normally happens earlier.
const expiringSoon = 30 * 24 * time.Hour

// CertificateInUse is a certificate and its Secret.
type CertificateInUse struct {
	// SecretName and Key are the Secret and the key in it.
	SecretName, Key string
	// NotBefore and NotAfter are the start and the end of the validity.
	NotBefore, NotAfter time.Time
}

// CertificatesInUse returns the certificates that the pods mount, ordered by the names of their Secrets, and then the issued
// certificate of applications.
func CertificatesInUse(o etcdcluster.Observation) []CertificateInUse {
	mounted := map[string]bool{}
	for _, name := range o.MountedSecrets() {
		mounted[name] = true
	}
	var certificates []CertificateInUse
	for _, secret := range o.Secrets {
		if !mounted[secret.Name] {
			continue
		}
		for _, certificate := range secret.Certificates {
			certificates = append(certificates, CertificateInUse{
				SecretName: secret.Name, Key: certificate.Key, NotBefore: certificate.NotBefore, NotAfter: certificate.NotAfter,
			})
		}
	}

	if secret := o.ApplicationSecret(); secret != nil && !secret.NotAfter.IsZero() {
		certificates = append(certificates, CertificateInUse{SecretName: secret.Name, Key: corev1.TLSCertKey, NotBefore: secret.NotBefore, NotAfter: secret.NotAfter})
	}

	return certificates
}

// certificatesValid is the part of the condition SecretsValid about certificates. It is True if every certificate in use is valid and does not expire soon. It covers certificates of the user
// and those that the operator issued for the pods and for applications. The message has the first certificate that expires with its date, and the
// members that were not restarted after TLS was switched on or off. Nil: there is no StatefulSet, or the cluster serves without TLS.
func certificatesValid(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeSecretsValid
	o := in.Observation
	if !o.StatefulSet.Exists {
		return nil
	}
	if failure := o.Failure(etcdcluster.SectionSecrets); failure != "" {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchSecrets, failure)
	}
	if len(o.MountedSecrets()) == 0 {
		return nil
	}
	first := firstToExpire(CertificatesInUse(o))
	if first == nil {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, "No certificate was found in the Secrets that pods mount")
	}
	soon := min(expiringSoon, first.NotAfter.Sub(first.NotBefore)/10)
	described := fmt.Sprintf("%s of Secret %s", first.Key, first.SecretName)
	switch {
	case in.Now.After(first.NotAfter):
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonCertificatesInvalid, described+" expired at "+stamp(first.NotAfter))
	case in.Now.Before(first.NotBefore):
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonCertificatesInvalid, described+" is not valid before "+stamp(first.NotBefore))
	case first.NotAfter.Sub(in.Now) < soon:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonCertificatesExpiring, described+" expires at "+stamp(first.NotAfter)+" and was not renewed")
	default:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSecretsValid, "The first to expire is "+described+", at "+stamp(first.NotAfter)+notRestarted(o))
	}
}

func firstToExpire(certificates []CertificateInUse) *CertificateInUse {
	var first *CertificateInUse
	for i := range certificates {
		if first == nil || certificates[i].NotAfter.Before(first.NotAfter) {
			first = &certificates[i]
		}
	}

	return first
}

// notRestarted returns the pods whose client TLS differs from the StatefulSet, as the end of a message. Empty: none.
func notRestarted(o etcdcluster.Observation) string {
	var names []string
	for _, pod := range o.Pods {
		if (pod.ClientTLS != nil) != (o.StatefulSet.TLS.ClientCA != "") {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	served := "plaintext"
	if o.StatefulSet.TLS.ClientCA == "" {
		served = "TLS"
	}

	return "; until they restart, clients are served " + served + " by " + strings.Join(names, ", ")
}
