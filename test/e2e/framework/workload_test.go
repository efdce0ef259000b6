// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/connectivity"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

var _ = Describe("The end of a workload", func() {
	It("closes the connections of its clients, which would otherwise connect to deleted pods until the last test", func() {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop()})
		Expect(err).NotTo(HaveOccurred())
		connection := client.ActiveConnection()

		framework.EndWorkload(client)

		Expect(connection.GetState()).To(Equal(connectivity.Shutdown))
	})
})
