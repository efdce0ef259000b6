// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = DescribeTable("The event about a hibernation", func(snapshot state.FinalSnapshot, expected string) {
	Expect(etcd.HibernationEventType(snapshot)).To(Equal(expected))
},
	Entry("is normal with a snapshot", state.FinalSnapshot{Snapshot: &state.VerifiedSnapshot{}}, "Normal"),
	Entry("is normal without data", state.FinalSnapshot{Missing: state.SnapshotNoData}, "Normal"),
	Entry("is normal if a user skips the snapshot", state.FinalSnapshot{Missing: state.SnapshotSkipped}, "Normal"),
	Entry("is a warning if all attempts failed", state.FinalSnapshot{Missing: state.SnapshotFailed}, "Warning"),
	Entry("is a warning if the cluster was rolled back", state.FinalSnapshot{Missing: state.SnapshotRolledBack}, "Warning"),
)
