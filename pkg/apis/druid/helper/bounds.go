// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// MaxMembers is the maximum number of members of an Etcd, and of addresses of externally managed members. The operator itself
// runs at most seven.
const MaxMembers = 32

// The bounds of lists and texts in a spec. The schema has them too, but a CustomResourceDefinition of another origin may not.
const (
	maxAddressLength     = 253
	maxURLLength         = 2048
	maxPeerURLs          = 5
	maxAdvertisedMembers = 10
	maxBootstrapMembers  = 10
)

// checkLimits truncates a spec to the limits of the operator, and adds an error for each exceeded limit.
func (m *mapper) checkLimits(spec *druidv1alpha1.EtcdSpec) {
	path := field.NewPath("spec")
	if spec.Replicas > MaxMembers {
		m.errs = append(m.errs, field.Invalid(path.Child("replicas"), spec.Replicas, "is more than an etcd cluster can have: an Etcd has at most 7 members, or 32 where other parties run the pods"))
		spec.Replicas = MaxMembers
	}
	m.texts(&spec.ExternallyManagedMemberAddresses, path.Child("externallyManagedMemberAddresses"), MaxMembers, maxAddressLength)
	etcd := path.Child("etcd")
	cut(m, &spec.Etcd.AdditionalAdvertisePeerURLs, etcd.Child("additionalAdvertisePeerURLs"), maxAdvertisedMembers)
	for i := range spec.Etcd.AdditionalAdvertisePeerURLs {
		m.texts(&spec.Etcd.AdditionalAdvertisePeerURLs[i].URLs, etcd.Child("additionalAdvertisePeerURLs").Index(i).Child("urls"), maxPeerURLs, maxURLLength)
	}
	bootstrap := spec.Etcd.BootstrapWithExistingCluster
	if bootstrap == nil {
		return
	}
	path = etcd.Child("bootstrapWithExistingCluster")
	m.texts(&bootstrap.ClientEndpoints, path.Child("clientEndpoints"), maxBootstrapMembers, maxURLLength)
	cut(m, &bootstrap.Members, path.Child("members"), maxBootstrapMembers)
	for i := range bootstrap.Members {
		m.texts(&bootstrap.Members[i].PeerURLs, path.Child("members").Index(i).Child("peerUrls"), maxPeerURLs, maxURLLength)
	}
}

func (m *mapper) texts(list *[]string, path *field.Path, maxItems, maxLength int) {
	cut(m, list, path, maxItems)
	for i, text := range *list {
		if len(text) > maxLength {
			m.errs = append(m.errs, field.TooLong(path.Index(i), "", maxLength))
		}
	}
	*list = slices.DeleteFunc(*list, func(text string) bool { return len(text) > maxLength })
}

func cut[T any](m *mapper, list *[]T, path *field.Path, maxItems int) {
	if count := len(*list); count > maxItems {
		m.errs = append(m.errs, field.TooMany(path, count, maxItems))
		*list = (*list)[:maxItems]
	}
}

// HasUserInfo is true if a URL or a host contains user info, which may be a password. The URL need not be valid. Without a
// scheme, slashes may follow the host.
func HasUserInfo(url string) bool {
	if strings.Contains(authorityOf(url), "@") {
		return true
	}
	_, rest, _ := strings.Cut(url, "//")

	return strings.Contains(authorityOf(rest), "@")
}

// authorityOf is what precedes the path, the query and the fragment.
func authorityOf(text string) string {
	if end := strings.IndexAny(text, "/?#"); end >= 0 {
		return text[:end]
	}

	return text
}
