// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deploymentName is the name of the Deployment of gardener-resource-manager.
const deploymentName = "gardener-resource-manager"

// FindInstalled returns an error that names the Deployment of Gardener's gardener-resource-manager if it runs. This is the Deployment in the namespace
// garden, if it has replicas. Each user can create a Deployment of this name in its own namespace, and must not prevent the start of the operator.
// FindInstalled returns the keys of these, and of one without replicas, for a warning.
func FindInstalled(ctx context.Context, reader client.Reader) ([]client.ObjectKey, error) {
	deployments := &appsv1.DeploymentList{}
	if err := reader.List(ctx, deployments, client.MatchingFields{"metadata.name": deploymentName}); err != nil {
		return nil, fmt.Errorf("listing Deployments of a gardener-resource-manager: %w", err)
	}
	var others []client.ObjectKey
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		key := client.ObjectKeyFromObject(deployment)
		if key.Namespace == v1beta1constants.GardenNamespace && ptr.Deref(deployment.Spec.Replicas, 1) > 0 {
			return nil, fmt.Errorf("the cluster has a gardener-resource-manager, Deployment %s, which applies ManagedResources already: run without --embedded-resource-manager", key)
		}
		others = append(others, key)
	}

	return others, nil
}
