// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The claim of a lost volume", func() {
	It("is deleted after the loss is recorded, even if the controller care has not observed it", func(ctx context.Context) {
		k := reconciledCluster(3)
		loseNode(k)
		incident := func() string {
			mr := &resourcesv1alpha1.ManagedResource{}
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "druid-" + k.Etcd.Name}, mr))

			return recordedAs(mr, "incident")
		}
		var before []string
		startOperator(k, func(w kube.Write) {
			if !w.Done && strings.HasPrefix(w.What, "delete PersistentVolumeClaim ") {
				before = append(before, incident())
			}
		}).run()
		Expect(before).To(HaveExactElements(ContainSubstring(`"lost":[{"name":"main-1"`)))
		Expect(k.Violations).To(BeEmpty())
	})
})
