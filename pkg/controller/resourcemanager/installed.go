// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deploymentName is the name of the Deployment of gardener-resource-manager, in any namespace.
const deploymentName = "gardener-resource-manager"

// CheckNoneInstalled returns an error that names the Deployment of a gardener-resource-manager if there is one.
func CheckNoneInstalled(ctx context.Context, reader client.Reader) error {
	deployments := &metav1.PartialObjectMetadataList{}
	deployments.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
	if err := reader.List(ctx, deployments, client.MatchingFields{"metadata.name": deploymentName}); err != nil {
		return fmt.Errorf("listing Deployments of a gardener-resource-manager: %w", err)
	}
	if len(deployments.Items) == 0 {
		return nil
	}
	return fmt.Errorf("the cluster has a gardener-resource-manager, Deployment %s, which applies ManagedResources already: run without --embedded-resource-manager",
		client.ObjectKeyFromObject(&deployments.Items[0]))
}
