// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// Helpers of tests in many files.

// managedResource returns the ManagedResource of the Etcd, which must exist.
func managedResource(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) *resourcesv1alpha1.ManagedResource {
	GinkgoHelper()

	resource := &resourcesv1alpha1.ManagedResource{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "druid-" + etcd.Name}, resource)).To(Succeed())

	return resource
}
