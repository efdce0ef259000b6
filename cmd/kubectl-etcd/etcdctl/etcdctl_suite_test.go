// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdctl_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestEtcdctl(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kubectl-etcd etcdctl Suite")
}
