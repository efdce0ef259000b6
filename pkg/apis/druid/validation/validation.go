// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package validation checks an Etcd for rules that the schema of its CustomResourceDefinition cannot express. It also checks
// rules that an older schema lacks, for example that of gardenlet. Every error names the field and the remedy. It is final:
// the author of the Etcd must act.
//
// What may not live here: checks that need another object, a cluster or the history of the Etcd. The exception is
// ValidateSize, which takes the history as an argument. Package backupstore checks the provider of a store. Rules of the API
// server are not repeated: a dry run checks every rendering.
package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// maxNameLength leaves room for a hash of 10 characters in a label value of 63 characters. The StatefulSet controller
// appends this hash to its name in the label controller-revision-hash.
const maxNameLength = 52

// wrapperPortOfSidecar is the port at which the sidecar calls etcd-wrapper to restart etcd. It cannot be configured.
const wrapperPortOfSidecar = 9095

// ValidateEtcd checks an Etcd in its canonical form. It returns nothing for an Etcd that can be rendered.
func ValidateEtcd(etcd *druidv1alpha1.Etcd) field.ErrorList {
	spec := field.NewPath("spec")

	var errs field.ErrorList
	errs = append(errs, validateName(etcd)...)
	errs = append(errs, validateUpdateStrategy(etcd)...)
	errs = append(errs, validateRecoveryPolicy(etcd)...)
	errs = append(errs, validateAddresses(etcd, spec)...)
	errs = append(errs, validateURLs(etcd, spec)...)
	errs = append(errs, validatePorts(etcd, spec)...)
	errs = append(errs, validateTLS(etcd, spec)...)
	errs = append(errs, validateEtcdConfig(etcd, spec)...)
	errs = append(errs, validateBackup(etcd, spec.Child("backup"))...)

	return errs
}

// validateUpdateStrategy rejects an annotation that would have no effect.
func validateUpdateStrategy(etcd *druidv1alpha1.Etcd) field.ErrorList {
	value, found := etcd.Annotations[druidv1alpha1.UpdateStrategyAnnotation]
	if !found || slices.Contains(druidv1alpha1.UpdateStrategies, druidv1alpha1.UpdateStrategy(value)) {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(druidv1alpha1.UpdateStrategyAnnotation)

	return field.ErrorList{field.NotSupported(path, druidv1alpha1.UpdateStrategy(value), druidv1alpha1.UpdateStrategies)}
}

// validateRecoveryPolicy rejects an annotation that would have no effect.
func validateRecoveryPolicy(etcd *druidv1alpha1.Etcd) field.ErrorList {
	value, found := etcd.Annotations[druidv1alpha1.RecoveryPolicyAnnotation]
	if !found || slices.Contains(druidv1alpha1.RecoveryPolicies, druidv1alpha1.RecoveryPolicy(value)) {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(druidv1alpha1.RecoveryPolicyAnnotation)

	return field.ErrorList{field.NotSupported(path, druidv1alpha1.RecoveryPolicy(value), druidv1alpha1.RecoveryPolicies)}
}

// validateName rejects names from which no valid name of a Service, a pod or a label value can be derived.
func validateName(etcd *druidv1alpha1.Etcd) field.ErrorList {
	if !helper.ManagesPods(etcd) {
		return nil
	}
	path := field.NewPath("metadata", "name")
	if len(etcd.Name) > maxNameLength {
		return field.ErrorList{field.TooLong(path, etcd.Name, maxNameLength)}
	}

	var errs field.ErrorList
	for _, message := range validation.IsDNS1035Label(helper.ClientServiceName(etcd)) {
		errs = append(errs, field.Invalid(path, etcd.Name, "cannot be the start of the name of a Service: "+message+"; create the Etcd under another name"))
	}

	return errs
}

func validatePorts(etcd *druidv1alpha1.Etcd, spec *field.Path) field.ErrorList {
	ports := []struct {
		path *field.Path
		port int32
	}{
		{spec.Child("etcd", "clientPort"), helper.ClientPort(etcd)},
		{spec.Child("etcd", "serverPort"), helper.PeerPort(etcd)},
		{spec.Child("etcd", "wrapperPort"), helper.WrapperPort(etcd)},
		{spec.Child("backup", "port"), helper.BackupPort(etcd)},
	}

	var errs field.ErrorList
	taken := map[int32]*field.Path{}
	for _, p := range ports {
		if p.port < 1 || p.port > 65535 {
			errs = append(errs, field.Invalid(p.path, p.port, "must be between 1 and 65535"))
		} else if other, found := taken[p.port]; found {
			errs = append(errs, field.Invalid(p.path, p.port, "is also the port of "+other.String()+" in the same pod: choose another"))
		}
		taken[p.port] = p.path
	}

	return append(errs, validateWrapperPort(etcd, spec.Child("etcd", "wrapperPort"))...)
}

// validateWrapperPort rejects a port that the sidecar does not use. Externally managed pods may share the network of a node
// and need different ports. Their manager replaces the restart of etcd by the sidecar.
func validateWrapperPort(etcd *druidv1alpha1.Etcd, path *field.Path) field.ErrorList {
	port := etcd.Spec.Etcd.WrapperPort
	if port == nil || *port == wrapperPortOfSidecar || !helper.ManagesPods(etcd) {
		return nil
	}

	return field.ErrorList{field.Invalid(path, *port, "remove it: the sidecar restarts etcd through port 9095, whatever the wrapper listens on")}
}
