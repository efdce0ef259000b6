// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"fmt"
	"strings"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// decide returns why a ManagedResource is not reconciled. Empty: it is. The Etcd is that of its name. Nil: there is none.
//
// A ManagedResource that is being deleted is always reconciled. The objects that it may delete are limited by [target].
func decide(mr *resourcesv1alpha1.ManagedResource, etcd *druidv1alpha1.Etcd, latest rendering) string {
	switch {
	case !isNamedForEtcd(mr):
		return "it is not one of this operator, which applies no others"
	case mr.DeletionTimestamp != nil:
		return ""
	case etcd == nil:
		return fmt.Sprintf("there is no Etcd %s", etcdKey(client.ObjectKeyFromObject(mr)))
	case latest.etcd != etcd.UID:
		return "the operator has not rendered the Etcd since its start"
	case ptr.Deref(mr.Spec.Class, "") != v1beta1constants.SeedResourceManagerClass:
		return "its class is not " + v1beta1constants.SeedResourceManagerClass + ", until the operator writes it again"
	case len(mr.Spec.SecretRefs) != 1 || mr.Spec.SecretRefs[0].Name != latest.secret:
		return fmt.Sprintf("it does not refer to Secret %s, which the operator rendered last, until the operator writes it again", latest.secret)
	}

	return ""
}

// namePrefix is the prefix of the ManagedResource of an Etcd.
var namePrefix = helper.ManagedResourceName(&druidv1alpha1.Etcd{})

// isNamedForEtcd is true for a ManagedResource with the origin of this operator and the name for an Etcd.
func isNamedForEtcd(mr *resourcesv1alpha1.ManagedResource) bool {
	return mr.Labels[managedresources.LabelKeyOrigin] == druidv1alpha1.ManagedResourceOrigin && strings.HasPrefix(mr.Name, namePrefix)
}

// etcdKey is the key of the Etcd to which a ManagedResource belongs by its name.
func etcdKey(mr client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: mr.Namespace, Name: strings.TrimPrefix(mr.Name, namePrefix)}
}
