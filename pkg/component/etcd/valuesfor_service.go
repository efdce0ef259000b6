// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/json"
	"fmt"
	"slices"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// clientServiceValuesFor fails where the annotation with the namespace selectors cannot be completed.
func clientServiceValuesFor(etcd *druidv1alpha1.Etcd, defaults state.Defaults) (ClientServiceValues, error) {
	service := ptr.Deref(etcd.Spec.Etcd.ClientService, druidv1alpha1.ClientService{})
	selectors, err := namespaceSelectorsFor(service.Annotations, defaults)
	if err != nil {
		return ClientServiceValues{}, err
	}

	return ClientServiceValues{
		Annotations:         service.Annotations,
		Labels:              service.Labels,
		TrafficDistribution: service.TrafficDistribution,
		NamespaceSelectors:  selectors,
	}, nil
}

// namespaceSelectorsFor adds the operator's selectors to those that the spec already has, each once. Nil: the operator has
// none to add, and the spec's annotation stays as it is, whatever it says.
func namespaceSelectorsFor(annotations map[string]string, defaults state.Defaults) ([]metav1.LabelSelector, error) {
	if len(defaults.NamespaceSelectors) == 0 {
		return nil, nil
	}

	const key = resourcesv1alpha1.NetworkingNamespaceSelectors
	var all []metav1.LabelSelector
	if existing, ok := annotations[key]; ok {
		if err := json.Unmarshal([]byte(existing), &all); err != nil {
			return nil, field.Invalid(field.NewPath("spec", "etcd", "clientService", "annotations").Key(key), existing, fmt.Sprintf("must be a JSON list of label selectors: %v", err))
		}
	}
	for _, selector := range defaults.NamespaceSelectors {
		if !slices.ContainsFunc(all, func(other metav1.LabelSelector) bool { return apiequality.Semantic.DeepEqual(selector, other) }) {
			all = append(all, selector)
		}
	}

	return all, nil
}
