// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// Helpers of the migration from etcd-druid.

// createWithEtcdDruid creates what etcd-druid creates for an existing Etcd with a store. The returned function waits for all members and for
// the first full snapshot, and then writes the status of etcd-druid.
func createWithEtcdDruid(ctx context.Context, ns *framework.TestNamespace, operator *framework.Operator, etcd *druidv1alpha1.Etcd) (wait func()) {
	GinkgoHelper()

	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Finalizers = []string{"druid.gardener.cloud/etcd-druid"} })
	druid := etcdDruidOf(ctx, operator, etcd)
	ns.Create(ctx, druid.Objects()...)

	return func() {
		GinkgoHelper()
		ns.Eventually(ctx, etcd, func(g Gomega) {
			statefulSet := &appsv1.StatefulSet{}
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
			g.Expect(statefulSet.Status.ReadyReplicas).To(Equal(etcd.Spec.Replicas))
		})
		eventuallySnapshot(ctx, ns, etcd, etcd.Name+"-full-snap", 0)

		// etcd-druid removes the annotation when it has reconciled the Etcd.
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { delete(etcd.Annotations, "gardener.cloud/operation") })
		before := etcd.DeepCopy()
		etcd.Status = druid.Status()
		Expect(ns.Client.Status().Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
	}
}

// etcdDruidOf returns the etcd-druid that renders the Etcd with the images of the seed for the version of etcd.
func etcdDruidOf(ctx context.Context, operator *framework.Operator, etcd *druidv1alpha1.Etcd) fixture.EtcdDruid {
	GinkgoHelper()

	return fixture.EtcdDruid{
		Etcd: etcd, Home: "/home/nonroot", InitImage: operator.Image(ctx, "init"),
		WrapperImage: operator.Image(ctx, imageName("etcd-wrapper")), SidecarImage: operator.Image(ctx, imageName("etcd-backup-restore")),
	}
}

// imageName returns the name in the image vector for the version of etcd of the tests.
func imageName(name string) string {
	if framework.EtcdVersion() == "3.5" {
		return name + "-next"
	}

	return name
}

// planAdoption returns what the plugin plans for an adoption. It expects that each pod restarts.
func planAdoption(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) string {
	GinkgoHelper()
	out := &bytes.Buffer{}
	code := app.Run(ctx, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out}, []string{"adopt", etcd.Name, "--dry-run", "-n", ns.Name})
	Expect(code).To(Equal(0), out.String())
	Expect(out.String()).To(And(ContainSubstring("Pods would restart once"), ContainSubstring("security settings of container backup-restore")))
	for ordinal := range etcd.Spec.Replicas {
		Expect(out.String()).To(MatchRegexp(`(delete|evict) pod %s-%d`, etcd.Name, ordinal))
	}

	return out.String()
}
