// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("A surge", func() {
	It("removes no member while the data of the two members differs", func() {
		k := kube.New(scheme)
		create(1, withSurge)(k)
		startOperator(k, nil).run()
		first := k.EtcdCluster().Members()[0].ID
		k.EtcdCluster().SetHash(first, 7)
		update(relabel)(k)
		startOperator(k, nil).run()
		Expect(k.EtcdCluster().Members()).To(HaveLen(2))
		Expect(k.EtcdObject().Status.LastOperation.Description).To(ContainSubstring("have different data at revision"))

		k.EtcdCluster().SetHash(first, 0)
		startOperator(k, nil).run()
		succeeded(1, 3)(k)
		Expect(k.Violations).To(BeEmpty())
	})

	It("promotes no learner that lacks more entries of the log than the step allows", func() {
		k := kube.New(scheme)
		create(3)(k)
		drive := startOperator(k, nil)
		drive.run()
		canonical, errs := helper.Canonical(k.EtcdObject())
		Expect(errs).To(BeEmpty())
		request := observer.RequestFor(canonical)
		request.QueryEtcd = true
		observation := drive.observer.Observe(context.Background(), canonical, request)
		var step plan.PromoteMember
		for _, pod := range observation.Pods {
			if endpoint := observation.Etcd.Endpoint(pod.Ordinal); !endpoint.IsLeader() {
				step = plan.PromoteMember{Meta: plan.Meta{Object: pod.Name, UID: pod.UID}, Member: endpoint.MemberID, MaxLag: 500}
			}
		}
		k.EtcdCluster().SetLag(step.Member, 501)
		Expect(drive.reconciler.CheckLag(context.Background(), canonical, observation, step)).To(MatchError("the learner lacks 501 entries of the log, and may lack 500"))
		k.EtcdCluster().SetLag(step.Member, 500)
		Expect(drive.reconciler.CheckLag(context.Background(), canonical, observation, step)).To(Succeed())
		step.UID = "another"
		Expect(drive.reconciler.CheckLag(context.Background(), canonical, observation, step)).To(MatchError(ContainSubstring("the pod has changed")))
	})
})
