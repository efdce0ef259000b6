// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("Members of a joined cluster", func() {
	var k *kube.Cluster

	BeforeEach(func() {
		k = kube.New(scheme)
		addExisting(k)
		create(3, plaintext, joining, withOtherExisting)(k)
		startOperator(k, nil).run()
		recordJoin(k)
		startOperator(k, nil).run()
		Expect(k.EtcdCluster().Members()).To(HaveLen(6))
		removeExisting(k)
	})

	It("are removed after the status reports it, and after a member of the Etcd leads", func() {
		removals := 0
		startOperator(k, func(write kube.Write) {
			if !strings.HasPrefix(write.What, "remove ") || write.Done {
				return
			}
			removals++
			Expect(conditions.Find(k.EtcdObject().Status.Conditions, "ScaleOperationComplete")).To(And(
				HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "BootstrapMembersRemoval")))
			for _, member := range k.EtcdCluster().Members() {
				if member.ID == k.EtcdCluster().Leader() {
					Expect(member.Name).To(HavePrefix("main-"))
				}
			}
		}).run()
		Expect(removals).To(Equal(3))
		hasRemovedExisting(7)(k)
	})

	It("do not delay a deletion of the Etcd", func() {
		drive := startOperator(k, nil)
		for range 100 {
			if len(k.EtcdCluster().Members()) < 6 {
				break
			}
			drive.reconcileOnce()
			k.Tick()
		}
		Expect(k.EtcdCluster().Members()).To(HaveLen(5))
		deleteEtcd(k)
		drive.run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.Violations).To(BeEmpty())
	})
})
