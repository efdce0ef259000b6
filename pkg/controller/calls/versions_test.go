// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
)

var _ = Describe("EtcdVersions", func() {
	var (
		c         client.Client
		versions  *calls.EtcdVersions
		conflicts *atomic.Int32
	)

	BeforeEach(func() {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd := &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.UID, etcd.Generation = "demo", "main", "uid", 1
		conflicts = &atomic.Int32{}
		c = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build(), interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, inner client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				goruntime.Gosched() // another writer may patch the same version
				err := inner.SubResource(name).Patch(ctx, object, patch, options...)
				if apierrors.IsConflict(err) {
					conflicts.Add(1)
				}

				return err
			},
		})
		versions = calls.NewEtcdVersions()
	})

	read := func(ctx context.Context) *druidv1alpha1.Etcd {
		GinkgoHelper()
		etcd := &druidv1alpha1.Etcd{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main"}, etcd)).To(Succeed())

		return etcd
	}
	// addCondition adds a condition to the status of an Etcd that was read before.
	addCondition := func(ctx context.Context, v *calls.EtcdVersions, etcd *druidv1alpha1.Etcd, conditionType druidv1alpha1.ConditionType) error {
		generation := etcd.Generation

		return v.Write(ctx, c, etcd, func(latest *druidv1alpha1.Etcd) bool { return latest.Generation != generation }, func() error {
			before := etcd.DeepCopy()
			etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{Type: conditionType, Status: "True"})
			if err := c.Status().Patch(ctx, etcd, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
				before.DeepCopyInto(etcd)

				return err
			}

			return nil
		})
	}

	It("write the changes of two controllers that have read the same version, without a conflict", func(ctx SpecContext) {
		first, second := read(ctx), read(ctx)
		Expect(addCondition(ctx, versions, first, "First")).To(Succeed())
		Expect(addCondition(ctx, versions, second, "Second")).To(Succeed())
		Expect(conflicts.Load()).To(BeZero())
		Expect(read(ctx).Status.Conditions).To(HaveLen(2))
	})

	It("write the changes of controllers at the same time, without a conflict", func(ctx SpecContext) {
		var group sync.WaitGroup
		for i := range 20 {
			etcd := read(ctx)
			group.Go(func() {
				defer GinkgoRecover()
				Expect(addCondition(ctx, versions, etcd, druidv1alpha1.ConditionType(fmt.Sprintf("Type%d", i)))).To(Succeed())
			})
		}
		group.Wait()
		Expect(conflicts.Load()).To(BeZero())
		Expect(read(ctx).Status.Conditions).To(HaveLen(20))
	})

	It("repeat the change after a conflict with another client", func(ctx SpecContext) {
		first, second := read(ctx), read(ctx)
		Expect(addCondition(ctx, nil, first, "First")).To(Succeed())
		Expect(addCondition(ctx, versions, second, "Second")).To(Succeed())
		Expect(conflicts.Load()).To(BeEquivalentTo(1))
		Expect(read(ctx).Status.Conditions).To(HaveLen(2))
	})

	It("use a version that was read after the last write", func(ctx SpecContext) {
		Expect(addCondition(ctx, versions, read(ctx), "First")).To(Succeed())
		Expect(addCondition(ctx, nil, read(ctx), "Second")).To(Succeed())
		Expect(addCondition(ctx, versions, read(ctx), "Third")).To(Succeed())
		Expect(conflicts.Load()).To(BeZero())
		Expect(read(ctx).Status.Conditions).To(HaveLen(3))
	})

	It("do not write a change that does not apply to the latest version", func(ctx SpecContext) {
		old := read(ctx)
		changed := read(ctx)
		changed.Generation = 2
		Expect(c.Update(ctx, changed)).To(Succeed())
		Expect(addCondition(ctx, versions, old, "First")).To(Satisfy(apierrors.IsConflict))
		Expect(addCondition(ctx, versions, read(ctx), "Second")).To(Succeed())
		Expect(addCondition(ctx, versions, old, "Third")).To(Satisfy(apierrors.IsConflict))
		Expect(read(ctx).Status.Conditions).To(HaveLen(1))
	})
})
