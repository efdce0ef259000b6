// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// NewScheme returns the scheme of everything that the operator reads and writes. It is not that of Gardener's seeds:
// that one registers etcd-druid's types for the kinds of druid.gardener.cloud, and registering two types for one kind
// panics.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		druidv1alpha1.AddToScheme,
		extensionsv1alpha1.AddToScheme,
		operatorv1alpha1.AddToScheme,
		resourcesv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two types for one kind: a mistake in this function
		}
	}
	return scheme
}
