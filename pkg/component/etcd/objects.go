// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects returns the content of the ManagedResource, sorted by kind and name. The annotation etcdcluster.RenderingAnnotation
// of the StatefulSet contains the checksum of all objects. It fails only if an object cannot be encoded, which is a defect of
// the operator.
func Objects(v Values) ([]client.Object, error) {
	configMap, err := configMap(v)
	if err != nil {
		return nil, err
	}
	checksum, err := configChecksum(v)
	if err != nil {
		return nil, err
	}
	statefulSet := statefulSet(v, checksum)
	if v.RecordsTemplate {
		if err := annotateTemplate(statefulSet); err != nil {
			return nil, err
		}
	}

	objects := []client.Object{configMap, statefulSet}
	if v.Components.Identity {
		objects = append(objects, serviceAccount(v), role(v), roleBinding(v))
	}
	if v.Components.Network {
		clientService, err := clientService(v)
		if err != nil {
			return nil, err
		}
		peerService, err := peerService(v, clientService)
		if err != nil {
			return nil, err
		}
		objects = append(objects, clientService, peerService, podDisruptionBudget(v))
		if v.NetworkPolicies != nil {
			objects = append(objects, memberNetworkPolicy(v), jobNetworkPolicy(v))
		}
	}
	slices.SortFunc(objects, byKindAndName)

	return objects, annotateRendering(statefulSet, objects)
}

func byKindAndName(a, b client.Object) int {
	return cmp.Or(
		cmp.Compare(a.GetObjectKind().GroupVersionKind().Kind, b.GetObjectKind().GroupVersionKind().Kind),
		cmp.Compare(a.GetName(), b.GetName()),
	)
}
