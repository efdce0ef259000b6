// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
)

var _ = Describe("NewLock", func() {
	It("should not limit the requests of other clients with the same configuration, and their watches, to the timeout of the election", func() {
		config := &rest.Config{Host: "https://127.0.0.1:1", UserAgent: "operator"}
		_, err := ownership.NewLock(config, client.ObjectKey{Namespace: "garden", Name: "election"}, 5*time.Second, &ownership.Guard{})
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Timeout).To(BeZero())
		Expect(config.UserAgent).To(Equal("operator"))
	})
})
