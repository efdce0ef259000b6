// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A cluster that etcd-druid created", func() {
	DescribeTable("keeps its data when the operator adopts it", func(ctx SpecContext, replicas int) {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		ns := seed.NewNamespace(ctx, fmt.Sprintf("adoption-%d", replicas))

		By("creating the objects that etcd-druid creates, while reconciliation is suspended")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(int32(replicas)), fixture.WithAnnotation(suspendAnnotation, "")) // #nosec G115 -- 1 or 3
		etcd.Finalizers = []string{"druid.gardener.cloud/etcd-druid"}
		ns.Create(ctx, etcd)
		etcdDruid := fixture.EtcdDruid{
			Etcd: etcd, WrapperImage: operator.Image(ctx, "etcd-wrapper"), SidecarImage: operator.Image(ctx, "etcd-backup-restore"), Home: "/home/nonroot",
		}
		ns.Create(ctx, etcdDruid.Objects()...)
		before := etcd.DeepCopy()
		status := etcdDruid.Status()
		etcd.Status.ObservedGeneration, etcd.Status.LastOperation = status.ObservedGeneration, status.LastOperation
		Expect(ns.Client.Status().Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			statefulSet := &appsv1.StatefulSet{}
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
			g.Expect(statefulSet.Status.ReadyReplicas).To(BeEquivalentTo(replicas))
		})

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		pods, claims := podUIDs(ctx, ns, replicas), volumeClaimUIDs(ctx, ns, replicas)
		var workload *framework.Workload
		if replicas > 1 {
			workload = ns.StartWorkloadWith(ctx, etcd, nil, "adoption")
		}

		By("planning the adoption with the plugin")
		out := &bytes.Buffer{}
		code := app.Run(ctx, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out}, []string{
			"adopt", "main", "--dry-run", "-n", ns.Name,
		})
		Expect(code).To(Equal(0), out.String())
		Expect(out.String()).To(And(ContainSubstring("Pods would restart once"), ContainSubstring("security settings of container backup-restore"),
			MatchRegexp(`(delete|evict) pod main-0`)))

		By("adopting the cluster")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			delete(etcd.Annotations, suspendAnnotation)
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, operationAnnotation, "reconcile")
		})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(etcd.Annotations).NotTo(HaveKey(operationAnnotation))
			g.Expect(framework.CheckReady(etcd)).To(Succeed())
		})

		for name, uid := range podUIDs(ctx, ns, replicas) {
			Expect(uid).NotTo(Equal(pods[name]), "%s was not replaced", name)
		}
		Expect(volumeClaimUIDs(ctx, ns, replicas)).To(Equal(claims))
		writeLog.ExpectComplete(ctx)
		writeLog.Write(ctx, 1)
		if workload != nil {
			workload.Stop(ctx) // verifies that no acknowledged write is lost
		}
	},
		Entry("with one member", SpecPriority(8), 1),
		Entry("with three members", SpecPriority(9), 3),
	)
})

// podUIDs returns the UIDs of the members' pods by their names.
func podUIDs(ctx context.Context, ns *framework.TestNamespace, replicas int) map[string]types.UID {
	GinkgoHelper()

	return uidsByName(ctx, ns, &corev1.Pod{}, "main-%d", replicas)
}

// volumeClaimUIDs returns the UIDs of the members' PersistentVolumeClaims by their names.
func volumeClaimUIDs(ctx context.Context, ns *framework.TestNamespace, replicas int) map[string]types.UID {
	GinkgoHelper()

	return uidsByName(ctx, ns, &corev1.PersistentVolumeClaim{}, "main-main-%d", replicas)
}

func uidsByName(ctx context.Context, ns *framework.TestNamespace, object client.Object, format string, replicas int) map[string]types.UID {
	GinkgoHelper()

	uids := map[string]types.UID{}

	for ordinal := range replicas {
		name := fmt.Sprintf(format, ordinal)
		Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, object)).To(Succeed())
		uids[name] = object.GetUID()
	}

	return uids
}
