// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("The record on the ManagedResource", func() {
	const prefix = "etcd-druid.extensions.gardener.cloud/"
	var (
		at       = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		complete = state.State{
			Accepted: &state.Accepted{Generation: 3, Defaults: state.Defaults{Images: state.Images{EtcdWrapper: "w", BackupRestore: "b", Init: "i"}}, Completed: true},
			Replicas: new(int32(0)), Size: 3, InitialClusterToken: "token",
			TLS:           state.TLSModes{Client: state.ModeManaged, Peer: state.ModeUserProvided},
			Rotation:      &state.Rotation{StartedAt: at, Stage: state.StagePrepared, PreparedAt: at},
			Restore:       state.RestoreJoin,
			FinalSnapshot: &state.FinalSnapshot{Generation: 3, Snapshot: &state.VerifiedSnapshot{Name: "Full-1", Revision: 7, At: at}, Store: "S3"},
			HandBack:      4,
			Store:         &state.Store{Provider: "S3", Container: "bucket", Prefix: "p", SecretName: "s"},
		}
		annotations = map[string]string{
			prefix + "defaults":              `{"generation":3,"defaults":{"images":{"etcdWrapper":"w","backupRestore":"b","init":"i"}},"over":true}`,
			prefix + "replicas":              "0",
			prefix + "size":                  "3",
			prefix + "initial-cluster-token": "token",
			prefix + "tls-mode":              "client=provisioned,peer=given",
			prefix + "ca-rotation":           `{"startedAt":"2026-01-02T03:04:05Z","stage":"Prepared","preparedAt":"2026-01-02T03:04:05Z"}`,
			prefix + "restore":               "join",
			prefix + "final-snapshot":        `{"generation":3,"snapshot":{"name":"Full-1","revision":7,"at":"2026-01-02T03:04:05Z"},"store":"S3"}`,
			prefix + "giving-back":           "4",
			prefix + "store":                 `{"provider":"S3","container":"bucket","prefix":"p","secretName":"s"}`,
		}
	)

	It("has a persisted form that never changes", func() {
		Expect(complete.Encode(state.State{})).To(Equal(annotations))
		Expect(state.Decode(annotations)).To(Equal(complete))
	})

	It("is empty for an Etcd that was never rendered", func() {
		Expect(state.Decode(nil)).To(Equal(state.State{}))
		Expect(state.State{}.Encode(state.State{})).To(BeEmpty())
	})

	It("empties the annotations of the parts that end", func() {
		next := complete
		next.Restore, next.FinalSnapshot = state.RestoreNone, nil
		encoded, err := next.Encode(complete)
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(And(HaveKeyWithValue(prefix+"restore", ""), HaveKeyWithValue(prefix+"final-snapshot", ""), HaveKeyWithValue(prefix+"size", "3")))
		Expect(encoded).To(HaveLen(len(annotations)))
	})

	DescribeTable("counts a part that cannot be read as not recorded",
		func(key, value string) {
			Expect(state.Decode(map[string]string{prefix + key: value})).To(Equal(state.State{}))
		},
		Entry("an accepted generation", "defaults", "{"),
		Entry("pods", "replicas", "-1"),
		Entry("a size", "size", "three"),
		Entry("TLS modes", "tls-mode", "client=on,peer=off"),
		Entry("a rotation", "ca-rotation", "{"),
		Entry("a snapshot", "final-snapshot", "{"),
	)

	It("keeps a hand-back whose generation cannot be read", func() {
		Expect(state.Decode(map[string]string{prefix + "giving-back": "now"})).To(Equal(state.State{HandBack: -1}))
	})

	It("reports that the record of the store cannot be read", func() {
		broken := state.Decode(map[string]string{prefix + "store": "{"})
		Expect(broken.Store).To(BeNil())
		Expect(broken.StoreError).To(ContainSubstring("unexpected end of JSON input"))
	})

	It("leaves out a spec that would not fit into the annotations of one object", func() {
		large := state.State{Accepted: &state.Accepted{Generation: 3, Spec: &druidv1alpha1.EtcdSpec{Annotations: map[string]string{"a": strings.Repeat("x", 100*1024)}}}}
		encoded, err := large.Encode(state.State{})
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Decode(encoded).Accepted).To(Equal(&state.Accepted{Generation: 3}))
	})

	It("changes one part of the annotations and leaves all others as they are", func() {
		before := map[string]string{prefix + "size": "03", prefix + "repairs": "{}", "other": "x"}
		Expect(state.Update(before, func(s *state.State) { s.HandBack = 5 })).To(Equal(map[string]string{
			prefix + "size": "03", prefix + "repairs": "{}", "other": "x", prefix + "giving-back": "5",
		}))
		Expect(before).To(HaveLen(3), "the argument stays as it is")
		Expect(state.Update(nil, func(s *state.State) { s.HandBack = 5 })).To(HaveLen(1))
	})
})
