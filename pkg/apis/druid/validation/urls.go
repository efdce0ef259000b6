// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// validateURLs rejects URLs with user info, because they occur in flags of containers, in the member list of etcd, and in
// messages. It rejects URLs with a comma, which separates URLs in flags.
func validateURLs(etcd *druidv1alpha1.Etcd, spec *field.Path) field.ErrorList {
	etcdPath := spec.Child("etcd")
	var errs field.ErrorList
	for i, additional := range etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
		errs = append(errs, validateURLTexts(additional.URLs, etcdPath.Child("additionalAdvertisePeerURLs").Index(i).Child("urls"))...)
	}
	if bootstrap := etcd.Spec.Etcd.BootstrapWithExistingCluster; bootstrap != nil {
		errs = append(errs, validateExistingCluster(*bootstrap, etcdPath.Child("bootstrapWithExistingCluster"))...)
	}
	if store := etcd.Spec.Backup.Store; store != nil {
		errs = append(errs, ValidateStoreEndpoint(store.EndpointOverride, spec.Child("backup", "store"))...)
	}

	return errs
}

// validateExistingCluster rejects URLs and names that cannot be part of a list in a flag.
func validateExistingCluster(existing druidv1alpha1.BootstrapWithExistingCluster, path *field.Path) field.ErrorList {
	errs := validateURLTexts(existing.ClientEndpoints, path.Child("clientEndpoints"))
	for i, member := range existing.Members {
		at := path.Child("members").Index(i)
		for _, message := range validation.IsDNS1123Subdomain(member.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), member.Name, "is not the name of a member: "+message))
		}
		errs = append(errs, validateURLTexts(member.PeerURLs, at.Child("peerUrls"))...)
	}

	return errs
}

func validateURLTexts(urls []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, url := range urls {
		if helper.HasUserInfo(url) {
			errs = append(errs, field.Forbidden(path.Index(i), "must not have user info: remove what is before the @ of the host"))
		}
		if strings.Contains(url, ",") {
			errs = append(errs, field.Forbidden(path.Index(i), "must not have a comma, which separates URLs in flags: write each URL as an entry of its own"))
		}
	}

	return errs
}

// ValidateStoreEndpoint refuses an endpoint of the store at the path that has user info. The error does not repeat it.
func ValidateStoreEndpoint(endpoint *string, store *field.Path) field.ErrorList {
	if endpoint == nil || !helper.HasUserInfo(*endpoint) {
		return nil
	}

	return field.ErrorList{field.Forbidden(store.Child("endpointOverride"),
		"must not have user info: remove what is before the @ of the host, and put credentials into the Secret in "+store.Child("secretRef").String())}
}
