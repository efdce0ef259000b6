// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

var _ = Describe("An Etcd that is reported as reconciled", func() {
	// isReported is true for the version of an Etcd that clients take as reconciled.
	isReported := func(etcd *druidv1alpha1.Etcd) bool {
		_, isRequested := etcd.Annotations["druid.gardener.cloud/operation"]
		status := etcd.Status

		return !isRequested && status.ObservedGeneration != nil && *status.ObservedGeneration == etcd.Generation && status.Ready != nil && *status.Ready &&
			conditions.IsTrue(status.Conditions, druidv1alpha1.ConditionTypeReconciled)
	}
	label := func(value string) func(*druidv1alpha1.Etcd) {
		return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["role"] = value }
	}
	replicas := func(count int32) func(*druidv1alpha1.Etcd) {
		return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = count }
	}

	It("can be written immediately without a conflict, and the controllers do not conflict with each other", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "quiet")
		p := &process{withCare: true}
		DeferCleanup(p.start(namespace, &members{namespace: namespace}))
		watcher, err := client.NewWithWatch(env.Config, client.Options{Scheme: app.NewScheme()})
		Expect(err).NotTo(HaveOccurred())
		watch, err := watcher.Watch(context.Background(), &druidv1alpha1.EtcdList{}, client.InNamespace(namespace))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(watch.Stop)

		changes := []func(*druidv1alpha1.Etcd){label("a"), label("b"), replicas(3), label("c"), func(*druidv1alpha1.Etcd) {}, replicas(0), replicas(3), label("d")}
		create(1)(ctx, namespace)
		for len(changes) > 0 {
			var etcd *druidv1alpha1.Etcd
			select {
			case event := <-watch.ResultChan():
				etcd = event.Object.(*druidv1alpha1.Etcd)
			case <-ctx.Done():
				Fail("the Etcd was not reported as reconciled")
			}
			if !isReported(etcd) {
				continue
			}
			changes[0](etcd)
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
			Expect(env.Client.Update(ctx, etcd)).To(Succeed(), "%d changes are left", len(changes))
			changes = changes[1:]
		}
		Eventually(isReconciled).WithArguments(ctx, namespace).Should(BeTrue())

		p.lock.Lock()
		defer p.lock.Unlock()
		fmt.Printf("%d of %d patches of the status conflicted\n", p.conflicts, p.statusPatches)
		Expect(p.conflicts).To(BeNumerically("<=", p.statusPatches/50))
	}, SpecTimeout(10*time.Minute))
})
