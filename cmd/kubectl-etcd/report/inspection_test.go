// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
)

var _ = DescribeTable("MediaType", func(value, expected string) { Expect(report.MediaType([]byte(value))).To(Equal(expected)) },
	Entry("an object of a kube-apiserver", "k8s\x00\n\x0c\n\x02v1", "application/vnd.kubernetes.protobuf"),
	Entry("a custom resource", `{"apiVersion":"druid.gardener.cloud/v1alpha1"}`, "application/json"),
	Entry("an encrypted object", "k8s:enc:aescbc:v1:key1:\x00\x01", `application/octet-stream, encrypted by the kube-apiserver with "aescbc"`),
	Entry("text", "main at 12:00", "text/plain"),
	Entry("other bytes", "\xff\x00", "application/octet-stream"),
)

var _ = DescribeTable("ReplayedPoint", func(message, expected string) { Expect(report.ReplayedPoint(message)).To(Equal(expected)) },
	Entry("a full snapshot", `{"revision":21,"keys":20,"base":"Full-00000000-00000021-1.gz"}`, "revision 21, 20 keys, from Full-00000000-00000021-1.gz"),
	Entry("a full snapshot and delta snapshots", `{"revision":23,"keys":22,"base":"Full-00000000-00000021-1.gz","deltas":1,"time":"2026-01-01T12:00:00.5Z"}`,
		"revision 23 of 2026-01-01T12:00:00Z, 22 keys, from Full-00000000-00000021-1.gz and a delta snapshot"),
	Entry("another message", "panic", "unknown revision"),
)
