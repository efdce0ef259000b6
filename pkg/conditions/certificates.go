// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"cmp"
	"slices"
	"strings"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// expiringSoon is the time before the expiration of a certificate at which the condition warns. It is a tenth of the validity
// if that is less. Renewal normally happens earlier.
const expiringSoon = 30 * 24 * time.Hour

// caExpiringSoon is the minimum of that time for a CA: its replacement takes three rolling updates.
const caExpiringSoon = 7 * 24 * time.Hour

// certificatesValid is the part of the condition SecretsValid about certificates. It is True if every certificate in use is valid and does not expire
// soon. It covers certificates of the user and those that the operator issued for the pods and for applications. Of a CA bundle it covers the CAs that
// verify them. The message has the first certificate that expires with its date, and the members that were not restarted after TLS was switched on
// or off. Nil: there is no StatefulSet, or the cluster serves without TLS.
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
	certificates := etcdcluster.CertificatesInUse(in.Etcd, o)
	slices.SortStableFunc(certificates, func(a, b etcdcluster.CertificateInUse) int { return a.NotAfter.Compare(b.NotAfter) })
	for _, certificate := range certificates {
		if reason, problem := validityProblem(certificate, in.Now); problem != "" {
			return condition(conditionType, druidv1alpha1.ConditionFalse, reason, certificate.String()+problem)
		}
	}
	if problem := cmp.Or(etcdcluster.MountedCertificatesProblem(in.Etcd, o, in.Now), etcdcluster.NewCertificatesProblem(in.Etcd, o, in.Now)); problem != "" {
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonCertificatesInvalid, problem+". No healthy member restarts before")
	}
	if len(certificates) == 0 {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, "No certificate was found in the Secrets that pods mount")
	}

	return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSecretsValid,
		"The first to expire is "+certificates[0].String()+", at "+stamp(certificates[0].NotAfter)+notRestarted(o))
}

// validityProblem returns the reason of the condition for a certificate that is not valid now, or not for long, and the end of the message. Empty:
// it is valid.
func validityProblem(c etcdcluster.CertificateInUse, now time.Time) (reason, problem string) {
	soon := min(expiringSoon, c.NotAfter.Sub(c.NotBefore)/10)
	if c.IsCA {
		soon = max(soon, caExpiringSoon)
	}
	switch {
	case now.After(c.NotAfter):
		return druidv1alpha1.ReasonCertificatesInvalid, " expired at " + stamp(c.NotAfter)
	case now.Before(c.NotBefore):
		return druidv1alpha1.ReasonCertificatesInvalid, " is not valid before " + stamp(c.NotBefore)
	case c.NotAfter.Sub(now) < soon:
		return druidv1alpha1.ReasonCertificatesExpiring, " expires at " + stamp(c.NotAfter) + " and was not renewed"
	default:
		return "", ""
	}
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
