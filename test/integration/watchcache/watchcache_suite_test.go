// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package watchcache_test tests what the informers of a kube-apiserver show after etcd was restored to an earlier revision. The kube-apiserver and
// etcd are real. The restore replaces the data directory of etcd.
package watchcache_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func TestWatchCache(t *testing.T) {
	RegisterFailHandler(Fail)
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	RunSpecs(t, "Test Integration Watch Cache Suite")
}
