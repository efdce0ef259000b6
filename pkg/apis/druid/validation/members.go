// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// maxSize is the maximum cluster size. Beyond it the cost of every write outweighs the additional fault tolerance.
const maxSize = 7

// ValidateSize checks spec.replicas against the last running size of the cluster. 0: it never ran. Valid sizes are 0 and odd
// numbers up to seven. A cluster that joins another one may begin with two members. The last size is always valid, since clusters of other sizes exist. Every size is valid for externally
// managed members.
func ValidateSize(etcd *druidv1alpha1.Etcd, last int32) field.ErrorList {
	path, replicas := field.NewPath("spec", "replicas"), etcd.Spec.Replicas
	switch {
	case last <= 1 && replicas == 2 && etcd.Spec.Etcd.BootstrapWithExistingCluster != nil && etcd.Status.BootstrapWithExistingCluster == nil:
		return nil // the second member has not joined yet
	case replicas == 0, replicas == last, !helper.ManagesPods(etcd):
		return nil
	case replicas < 0, replicas > maxSize, replicas%2 == 0:
		message := "must be 0, 1, 3, 5 or 7: an even number tolerates no more failures than the odd one below it"
		if replicas == 2 {
			message += "; set 1, or set 3 to tolerate a failure. 2 is valid only for a new Etcd with spec.etcd.bootstrapWithExistingCluster"
		}

		return field.ErrorList{field.Invalid(path, replicas, message)}
	}

	return nil
}

// validateAddresses checks the addresses of members that are managed externally, and what names members.
func validateAddresses(etcd *druidv1alpha1.Etcd, spec *field.Path) field.ErrorList {
	var errs field.ErrorList

	addresses, path := etcd.Spec.ExternallyManagedMemberAddresses, spec.Child("externallyManagedMemberAddresses")
	if len(addresses) > 0 && len(addresses) != int(etcd.Spec.Replicas) {
		errs = append(errs, field.Invalid(path, len(addresses), fmt.Sprintf("has %d entries, but spec.replicas says %d: make them equal", len(addresses), etcd.Spec.Replicas)))
	}
	for i, address := range addresses {
		errs = append(errs, validateAddress(address, path.Index(i))...)
	}

	return append(errs, validatePeerURLs(etcd, spec.Child("etcd", "additionalAdvertisePeerURLs"))...)
}

// validateAddress rejects addresses that cannot be part of a member name. The Lease has the name of the member, which the
// sidecar derives from the address of its pod. An IPv6 address contains colons, which are not valid in the name of an object.
func validateAddress(address string, path *field.Path) field.ErrorList {
	switch ip := net.ParseIP(address); {
	case helper.HasUserInfo(address):
		return field.ErrorList{field.Forbidden(path, "must not have user info: name the IPv4 address or the host alone")}
	case ip != nil && strings.Contains(address, ":"):
		return field.ErrorList{field.Invalid(path, address, "must not be an IPv6 address: the Lease of the member could not be named after it; use an IPv4 address or a host name")}
	case ip == nil && len(validation.IsDNS1123Subdomain(address)) > 0:
		return field.ErrorList{field.Invalid(path, address, "must be an IPv4 address or a host name in lower case, without scheme and port")}
	}

	return nil
}

// validatePeerURLs rejects URLs of members that do not exist. While the cluster hibernates, it accepts all.
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
