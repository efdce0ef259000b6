// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package restrictions compares what the authors of Etcds and tasks select with the values that the operator's configuration allows.
//
// What may not live here: rules that do not depend on the configuration (see package validation of the API), and the consequences of an error.
package restrictions

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Restrictions are the values that authors may select. In each list, nil allows all values, and an empty list allows none. The fields are those
// of the section restrictions of the operator's configuration.
type Restrictions struct {
	// AllowedAnnotations are keys of annotations. An entry that ends with * allows all keys with the prefix before it.
	AllowedAnnotations []string
	// AllowedLabels are keys of labels, in the same format.
	AllowedLabels []string
	// AllowedPriorityClasses are names of PriorityClasses, in the same format. The default PriorityClass of the cluster needs no entry.
	AllowedPriorityClasses []string
	// AllowedEndpoints are hosts to which the operator connects although they are no pods of the Etcd. An entry is a host name, *. and a domain,
	// an IP address, or an address range.
	AllowedEndpoints []string
}

// maxNamed is the maximum number of forbidden values that an error names.
const maxNamed = 3

// ValidateEtcd returns an error for each field of a canonical Etcd with values that are not allowed. Values that the known spec has too are
// allowed. Nil: there is no known spec.
func (r Restrictions) ValidateEtcd(etcd *druidv1alpha1.Etcd, known *druidv1alpha1.EtcdSpec) field.ErrorList {
	path, before := field.NewPath("spec"), ptr.Deref(known, druidv1alpha1.EtcdSpec{})
	service, serviceBefore := ptr.Deref(etcd.Spec.Etcd.ClientService, druidv1alpha1.ClientService{}), ptr.Deref(before.Etcd.ClientService, druidv1alpha1.ClientService{})
	servicePath := path.Child("etcd", "clientService")

	errs := slices.Concat(
		r.annotations().validateMap(etcd.Spec.Annotations, before.Annotations, path.Child("annotations")),
		r.annotations().validateMap(service.Annotations, serviceBefore.Annotations, servicePath.Child("annotations")),
		r.labels().validateMap(etcd.Spec.Labels, before.Labels, path.Child("labels")),
		r.labels().validateMap(service.Labels, serviceBefore.Labels, servicePath.Child("labels")),
	)
	if class := ptr.Deref(etcd.Spec.PriorityClassName, ""); class != "" {
		errs = append(errs, r.priorityClasses().validate([]string{class}, []string{ptr.Deref(before.PriorityClassName, "")}, path.Child("priorityClassName"))...)
	}

	return append(errs, r.ValidateEndpoints(etcd, known)...)
}

// ValidateEndpoints is ValidateEtcd for the fields that name addresses to which the operator connects.
func (r Restrictions) ValidateEndpoints(etcd *druidv1alpha1.Etcd, known *druidv1alpha1.EtcdSpec) field.ErrorList {
	path, before := field.NewPath("spec"), ptr.Deref(known, druidv1alpha1.EtcdSpec{})
	existing := ptr.Deref(etcd.Spec.Etcd.BootstrapWithExistingCluster, druidv1alpha1.BootstrapWithExistingCluster{})
	existingBefore := ptr.Deref(before.Etcd.BootstrapWithExistingCluster, druidv1alpha1.BootstrapWithExistingCluster{})

	return slices.Concat(
		r.hosts().validate(etcd.Spec.ExternallyManagedMemberAddresses, before.ExternallyManagedMemberAddresses, path.Child("externallyManagedMemberAddresses")),
		r.urls().validate(existing.ClientEndpoints, existingBefore.ClientEndpoints, path.Child("etcd", "bootstrapWithExistingCluster", "clientEndpoints")),
	)
}

// ValidateCopyBackupsTask returns an error for each field of a task with values that are not allowed.
func (r Restrictions) ValidateCopyBackupsTask(task *druidv1alpha1.EtcdCopyBackupsTask) field.ErrorList {
	return r.labels().validateMap(task.Spec.PodLabels, nil, field.NewPath("spec", "podLabels"))
}

// AllowsURL is true if the operator may connect to the host of a URL that is no pod of the Etcd.
func (r Restrictions) AllowsURL(text string) bool { return r.urls().allows(text) }

func (r Restrictions) annotations() list {
	return list{key: "allowedAnnotations", entries: r.AllowedAnnotations, matches: matchesText}
}

func (r Restrictions) labels() list {
	return list{key: "allowedLabels", entries: r.AllowedLabels, matches: matchesText}
}

func (r Restrictions) priorityClasses() list {
	return list{key: "allowedPriorityClasses", entries: r.AllowedPriorityClasses, matches: matchesText}
}

func (r Restrictions) hosts() list {
	return list{key: "allowedEndpoints", entries: r.AllowedEndpoints, matches: matchesHost}
}

func (r Restrictions) urls() list {
	return list{key: "allowedEndpoints", entries: r.AllowedEndpoints, matches: matchesURL}
}

// list is one list of allowed values.
type list struct {
	// key is its key in the section restrictions of the operator's configuration.
	key string
	// entries allow the values that match one of them. Nil: all values.
	entries []string
	// matches is true if an entry allows a value.
	matches func(entry, value string) bool
}

func (l list) allows(value string) bool {
	return l.entries == nil || slices.ContainsFunc(l.entries, func(entry string) bool { return l.matches(entry, value) })
}

// validate returns an error if values contains a value that is neither allowed nor known.
func (l list) validate(values, known []string, path *field.Path) field.ErrorList {
	return l.forbid(slices.DeleteFunc(slices.Clone(values), func(value string) bool { return l.allows(value) || slices.Contains(known, value) }), path)
}

// validateMap is validate for the keys of a map. A key is known if it has the same value.
func (l list) validateMap(values, known map[string]string, path *field.Path) field.ErrorList {
	var forbidden []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		before, isKnown := known[key]
		if !l.allows(key) && (!isKnown || before != values[key]) {
			forbidden = append(forbidden, key)
		}
	}

	return l.forbid(forbidden, path)
}

// forbid returns one error for all values. It names only some of them, since their number has no limit.
func (l list) forbid(values []string, path *field.Path) field.ErrorList {
	if len(values) == 0 {
		return nil
	}
	var names []string
	for _, value := range values[:min(len(values), maxNamed)] {
		names = append(names, fmt.Sprintf("%.253q", value))
	}
	named, it, allowed := strings.Join(names, ", "), "it", "none"
	if len(values) > 1 {
		it = "them"
	}
	if rest := len(values) - len(names); rest > 0 {
		named += fmt.Sprintf(" and %d more", rest)
	}
	if len(l.entries) > 0 {
		allowed = strings.Join(l.entries, ", ")
	}

	return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
		"restrictions.%s of the operator's configuration does not allow %s (allowed: %s): remove %s from the spec, or add %s to the configuration", l.key, named, allowed, it, it))}
}

// matchesText is true for the value of the entry, and for each value with the prefix before a * at its end.
func matchesText(entry, value string) bool {
	prefix, isPrefix := strings.CutSuffix(entry, "*")

	return entry == value || isPrefix && strings.HasPrefix(value, prefix)
}

// matchesURL is matchesHost for the host of a URL.
func matchesURL(entry, text string) bool {
	parsed, err := url.Parse(text)

	return err == nil && matchesHost(entry, parsed.Hostname())
}

// matchesHost is true for the host of the entry, for each host below its domain, and for each address in its range. Another notation of the same
// host does not match.
func matchesHost(entry, host string) bool {
	host = strings.ToLower(host)
	if domain, isDomain := strings.CutPrefix(entry, "*."); isDomain {
		return strings.HasSuffix(host, "."+domain)
	}
	if addresses, err := netip.ParsePrefix(entry); err == nil {
		address, err := netip.ParseAddr(host)

		return err == nil && addresses.Contains(address)
	}

	return entry == host
}
