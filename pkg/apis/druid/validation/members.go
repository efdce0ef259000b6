// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// maxSize is the largest cluster: beyond it etcd loses more in every write than it wins in tolerance.
const maxSize = 7

// ValidateSize checks spec.replicas against the size that the cluster had when it last ran; 0 means that it never ran. Sizes
// are 0 and the odd ones up to seven. The size that a cluster has is always let pass, since clusters of other sizes exist,
// and so is every size where members are managed externally.
func ValidateSize(etcd *druidv1alpha1.Etcd, last int32) field.ErrorList {
	path, replicas := field.NewPath("spec", "replicas"), etcd.Spec.Replicas
	switch {
	case replicas == 0, replicas == last, len(etcd.Spec.ExternallyManagedMemberAddresses) > 0:
		return nil
	case replicas < 0, replicas > maxSize, replicas%2 == 0:
		return field.ErrorList{field.Invalid(path, replicas, "must be 0, 1, 3, 5 or 7: an even number tolerates no more failures than the odd one below it")}
	case replicas < last:
		return field.ErrorList{field.Invalid(path, replicas, fmt.Sprintf("is less than the %d members that the cluster has: it can only grow, hibernate with 0, and wake up with %d", last, last))}
	}

	return nil
}

// validateAddresses checks the addresses of members that are managed externally, and what names members.
func validateAddresses(etcd *druidv1alpha1.Etcd, spec *field.Path) field.ErrorList {
	var errs field.ErrorList

	addresses, path := etcd.Spec.ExternallyManagedMemberAddresses, spec.Child("externallyManagedMemberAddresses")
	if len(addresses) > 0 && len(addresses) != int(etcd.Spec.Replicas) {
		errs = append(errs, field.Invalid(path, addresses, fmt.Sprintf("has %d entries, but spec.replicas says %d: make them equal", len(addresses), etcd.Spec.Replicas)))
	}
	for i, address := range addresses {
		if net.ParseIP(address) == nil && len(validation.IsDNS1123Subdomain(address)) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), address, "must be an IPv4 or IPv6 address or a host name, without scheme and port"))
		}
	}

	return append(errs, validatePeerURLs(etcd, spec.Child("etcd", "additionalAdvertisePeerURLs"))...)
}

// validatePeerURLs finds URLs of members that do not exist. While the cluster hibernates none does, so that all pass.
func validatePeerURLs(etcd *druidv1alpha1.Etcd, path *field.Path) field.ErrorList {
	if helper.IsHibernated(etcd) {
		return nil
	}
	members := helper.MemberNames(etcd, min(etcd.Spec.Replicas, maxSize))

	var errs field.ErrorList
	for i, additional := range etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
		if !slices.Contains(members, additional.MemberName) {
			errs = append(errs, field.NotSupported(path.Index(i).Child("memberName"), additional.MemberName, members))
		}
	}

	return errs
}
