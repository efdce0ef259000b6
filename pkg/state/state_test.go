// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("The record on the ManagedResource", func() {
	const prefix = "etcd-druid.extensions.gardener.cloud/"
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	It("has a complete form that never changes", func() {
		taken := state.VerifiedSnapshot{Name: "Full-1", Revision: 7, At: at, LastRevision: 8, Store: "S3", PodCreationTime: at}
		recorded := state.State{
			Accepted: &state.Accepted{Generation: 3, EtcdVersion: "3.5", Completed: true, Defaults: state.Defaults{ImageSets: map[string]state.Images{
				"3.4": {EtcdWrapper: "w", BackupRestore: "b", Init: "i"}, "3.5": {EtcdWrapper: "w5", BackupRestore: "b5", Init: "i"},
			}}},
			Replicas: new(int32(0)), Size: 3, InitialClusterToken: "token", EtcdVersion: "3.4",
			TLS:      state.TLSModes{Client: state.ModeManaged, Peer: state.ModeUserProvided},
			Rotation: &state.Rotation{StartedAt: at, Stage: state.StagePrepared, PreparedAt: at},
			Restore:  state.RestoreJoin,
			Snapshot: state.SnapshotAttempts{
				Generation: 3, StartedAt: at, EndedAt: at.Add(time.Minute), Failures: 1, Expired: 2, Error: "no answer", Verified: &taken,
			},
			FinalSnapshot: &state.FinalSnapshot{Generation: 3, Snapshot: &state.VerifiedSnapshot{Name: "Full-1", Revision: 7, At: at}, Store: "S3"},
			HandBack:      4,
			Store:         &state.Store{Provider: "S3", Container: "bucket", Prefix: "p", SecretName: "s"},
		}
		recorded.Verified = &state.VerifiedRestore{Revision: 41, Keys: 40, Known: 101, AcceptedRevision: 41, At: at}
		recorded.Retained = []state.RetainedVolume{{Name: "pv", UID: "pv-uid", Claim: "main-main-0", ClaimUID: "claim-uid", ReclaimPolicy: "Delete", At: at}}
		annotations, err := recorded.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(annotations).To(HaveLen(2))
		Expect(annotations[prefix+"store"]).To(Equal(`{"provider":"S3","container":"bucket","prefix":"p","secretName":"s"}`))
		Expect(annotations[prefix+"state"]).To(Equal(`{"version":1,` +
			`"accepted":{"generation":3,"defaults":{"imageSets":{"3.4":{"etcdWrapper":"w","backupRestore":"b","init":"i"},` +
			`"3.5":{"etcdWrapper":"w5","backupRestore":"b5","init":"i"}}},"etcdVersion":"3.5","completed":true},` +
			`"replicas":0,"size":3,"initialClusterToken":"token","tls":{"client":"provisioned","peer":"given"},` +
			`"rotation":{"startedAt":"2026-01-02T03:04:05Z","stage":"Prepared","preparedAt":"2026-01-02T03:04:05Z"},"restore":"join",` +
			`"verified":{"revision":41,"keys":40,"known":101,"acceptedRevision":41,"at":"2026-01-02T03:04:05Z"},` +
			`"retained":[{"name":"pv","uid":"pv-uid","claim":"main-main-0","claimUID":"claim-uid","reclaimPolicy":"Delete","at":"2026-01-02T03:04:05Z"}],` +
			`"snapshot":{"generation":3,"startedAt":"2026-01-02T03:04:05Z","endedAt":"2026-01-02T03:05:05Z","failures":1,"expired":2,"error":"no answer",` +
			`"verified":{"name":"Full-1","revision":7,"at":"2026-01-02T03:04:05Z","lastRevision":8,"store":"S3","podCreationTime":"2026-01-02T03:04:05Z"}},` +
			`"finalSnapshot":{"generation":3,"snapshot":{"name":"Full-1","revision":7,"at":"2026-01-02T03:04:05Z"},"store":"S3"},"handBack":4,"etcdVersion":"3.4"}`))
		Expect(state.Decode(annotations)).To(Equal(recorded))
	})

	It("is empty for an Etcd that was never rendered", func() {
		Expect(state.Decode(nil)).To(Equal(state.State{}))
		Expect(state.State{}.Encode()).To(Equal(map[string]string{prefix + "state": `{"version":1}`}))
	})

	DescribeTable("has a persisted form that never changes", func(recorded state.State, text string) {
		encoded, err := recorded.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(Equal(map[string]string{prefix + "state": `{"version":1,` + text + `}`}))
		Expect(state.Decode(encoded)).To(Equal(recorded))
	},
		Entry("of a scale-in", state.State{Size: 3, ScaleIn: &state.ScaleIn{To: 1, Since: at, Removing: true}},
			`"size":3,"scale":{"to":1,"since":"2026-01-02T03:04:05Z","removing":true}`),
		Entry("of a surge", state.State{Size: 2, Surge: &state.Surge{Phase: state.SurgeReturn, Since: at, Cause: "its pod template has changed", Pod: "pod", Claim: "claim"}},
			`"size":2,"surge":{"phase":"Return","since":"2026-01-02T03:04:05Z","cause":"its pod template has changed","pod":"pod","claim":"claim"}`),
		Entry("of a volume migration", state.State{Size: 4, Migration: &state.Migration{Phase: state.MigrationReplace, Since: at, Cause: "cause", Claim: "claim"}},
			`"size":4,"migration":{"phase":"Replace","since":"2026-01-02T03:04:05Z","cause":"cause","claim":"claim"}`),
		Entry("of different data", state.State{Size: 3, Inconsistency: &state.Inconsistency{
			Since: at, At: at.Add(time.Minute), Revision: 7, Compacted: 5, Comparisons: 2, Members: []state.MemberHash{{Name: "main-0", ID: "a0", Hash: 1}},
		}}, `"size":3,"inconsistency":{"since":"2026-01-02T03:04:05Z","at":"2026-01-02T03:05:05Z","revision":7,"compacted":5,"comparisons":2,`+
			`"members":[{"name":"main-0","id":"a0","hash":1}]}`),
		Entry("of a volume with wrong data", state.State{Retained: []state.RetainedVolume{
			{Name: "pv", UID: "pv-uid", Claim: "main-main-0", ClaimUID: "claim-uid", ReclaimPolicy: "Delete", At: at, Kept: true},
		}}, `"retained":[{"name":"pv","uid":"pv-uid","claim":"main-main-0","claimUID":"claim-uid","reclaimPolicy":"Delete","at":"2026-01-02T03:04:05Z","kept":true}]`),
		Entry("of a recovery", state.State{Size: 3, Restore: state.RestoreRecover, Recovery: &state.Recovery{
			LostAt: at, Source: state.RecoverMembers, Token: "members-12345678", By: "a user", Revision: 7, Known: 7,
		}}, `"size":3,"restore":"recover","recovery":{"lostAt":"2026-01-02T03:04:05Z","source":"members","token":"members-12345678","by":"a user","revision":7,"known":7}`),
		Entry("of what a quorum has confirmed after the loss of a member", state.State{Incident: &state.Incident{
			ClusterID: "7", Voters: []state.Voter{{Name: "main-0", ID: "a"}}, Lost: []state.LostVoter{{Voter: state.Voter{Name: "main-0", ID: "a"}, Claim: "claim", Deleted: true}},
			Confirmed: []string{"b"}, At: at,
		}}, `"incident":{"clusterID":"7","voters":[{"name":"main-0","id":"a"}],"lost":[{"name":"main-0","id":"a","claim":"claim","deleted":true}],`+
			`"confirmed":["b"],"at":"2026-01-02T03:04:05Z"}`),
	)

	It("keeps the keys of later versions of the operator", func() {
		recorded, err := state.Decode(map[string]string{prefix + "state": `{"version":1,"size":3,"later":{"revision":7}}`})
		Expect(err).NotTo(HaveOccurred())
		Expect(recorded).To(Equal(state.State{Size: 3, Unknown: map[string]json.RawMessage{"later": json.RawMessage(`{"revision":7}`)}}))
		recorded.Size = 5
		Expect(recorded.Encode()).To(HaveKeyWithValue(prefix+"state", MatchJSON(`{"version":1,"size":5,"later":{"revision":7}}`)))
	})

	It("knows the keys of all its fields", func() {
		for field := range reflect.TypeFor[state.State]().Fields() {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			recorded, err := state.Decode(map[string]string{prefix + "state": `{"version":1,"` + key + `":null}`})
			Expect(err).NotTo(HaveOccurred())
			if key != "-" {
				Expect(recorded.Unknown).To(BeEmpty(), key)
			}
		}
	})

	DescribeTable("is never guessed", func(text, message string) {
		recorded, err := state.Decode(map[string]string{prefix + "state": text})
		Expect(err).To(MatchError(ContainSubstring(message)))
		Expect(recorded).To(Equal(state.State{}))
		_, err = state.Update(map[string]string{prefix + "state": text}, func(*state.State) {})
		Expect(err).To(HaveOccurred(), "nothing overwrites it")
	},
		Entry("if it cannot be read", `{"version":1,`, "state cannot be read, restore it"),
		Entry("if a newer operator wrote it", `{"version":2,"size":3}`, "has version 2, and this operator reads versions up to 1"),
		Entry("if it has more members than any cluster", `{"version":1,"size":2000000000}`, "has 2000000000 members, restore it"),
		Entry("if it has a negative number of pods", `{"version":1,"replicas":-1}`, "has -1 members, restore it"),
		Entry("if it has no version", `{"size":3}`, "has no version, restore it"),
	)

	It("reports that the record of the store cannot be read", func() {
		broken, err := state.Decode(map[string]string{prefix + "store": "{"})
		Expect(err).NotTo(HaveOccurred())
		Expect(broken.Store).To(BeNil())
		Expect(broken.StoreError).To(ContainSubstring("unexpected end of JSON input"))
	})

	It("leaves out a spec that would not fit into the annotations of one object", func() {
		large := state.State{Accepted: &state.Accepted{Generation: 3, Spec: &druidv1alpha1.EtcdSpec{Annotations: map[string]string{"a": strings.Repeat("x", 100*1024)}}}}
		encoded, err := large.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Decode(encoded)).To(HaveField("Accepted", Equal(&state.Accepted{Generation: 3})))
		Expect(large.Accepted.Spec).NotTo(BeNil(), "the argument stays as it is")
	})

	It("changes one part of the annotations and leaves all others as they are", func() {
		before := map[string]string{prefix + "state": `{"version":1,"size":3}`, prefix + "repairs": "{}", prefix + "store": "{", "other": "x"}
		Expect(state.Update(before, func(s *state.State) { s.HandBack = 5 })).To(Equal(map[string]string{
			prefix + "state": `{"version":1,"size":3,"handBack":5}`, prefix + "repairs": "{}", prefix + "store": "{", "other": "x",
		}))
		Expect(before[prefix+"state"]).To(Equal(`{"version":1,"size":3}`), "the argument stays as it is")
		Expect(state.Update(nil, func(s *state.State) { s.HandBack = 5 })).To(HaveLen(1))
	})

	It("has no times after now in procedures, and keeps small differences between two clocks", func() {
		soon, later := at.Add(30*time.Second), at.Add(20*time.Minute)
		recorded := state.State{
			ScaleIn: &state.ScaleIn{Since: soon, ReadyAt: later}, Surge: &state.Surge{Since: later, ReadyAt: at.Add(-time.Hour)},
			Migration: &state.Migration{Since: later, ReadyAt: later}, Space: &state.Space{RetryAt: later},
		}
		Expect(recorded.BeforeNow(at)).To(Equal(state.State{
			ScaleIn: &state.ScaleIn{Since: soon, ReadyAt: at}, Surge: &state.Surge{Since: at, ReadyAt: at.Add(-time.Hour)},
			Migration: &state.Migration{Since: at, ReadyAt: at}, Space: &state.Space{RetryAt: later},
		}))
		Expect(recorded.Surge.Since).To(Equal(later), "the record itself is not changed")
		Expect(state.State{}.BeforeNow(at)).To(Equal(state.State{}))
	})

	DescribeTable("compares rotations", func(a, b *state.Rotation, expected bool) {
		Expect(a.IsSame(b)).To(Equal(expected))
	},
		Entry("none and none", nil, nil, true),
		Entry("one and none", &state.Rotation{}, nil, false),
		Entry("the same time in two time zones", &state.Rotation{StartedAt: at}, &state.Rotation{StartedAt: at.In(time.FixedZone("x", 3600))}, true),
		Entry("two stages", &state.Rotation{Stage: state.StagePrepared}, &state.Rotation{}, false),
	)
})
