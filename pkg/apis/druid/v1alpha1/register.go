// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the name of the API group of all kinds in this package.
const GroupName = "druid.gardener.cloud"

var (
	// SchemeGroupVersion is the group and version of all kinds in this package.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	// SchemeBuilder collects the functions that register the kinds of this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the kinds of this package. The API module of etcd-druid registers other Go types for the same
	// kinds, so that it must never meet the same scheme: registering both panics.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Kind qualifies a kind with the group of this package.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource qualifies a resource (lower-case plural) with the group of this package.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Etcd{}, &EtcdList{},
		&EtcdCopyBackupsTask{}, &EtcdCopyBackupsTaskList{},
		&EtcdOpsTask{}, &EtcdOpsTaskList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)

	return nil
}
