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
	var (
		at       = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		complete = func() state.State {
			return state.State{
				Accepted: &state.Accepted{Generation: 3, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {EtcdWrapper: "w", BackupRestore: "b", Init: "i"}}}, Completed: true},
				Replicas: new(int32(0)), Size: 3, InitialClusterToken: "token",
				TLS:           state.TLSModes{Client: state.ModeManaged, Peer: state.ModeUserProvided},
				Rotation:      &state.Rotation{StartedAt: at, Stage: state.StagePrepared, PreparedAt: at},
				Restore:       state.RestoreJoin,
				FinalSnapshot: &state.FinalSnapshot{Generation: 3, Snapshot: &state.VerifiedSnapshot{Name: "Full-1", Revision: 7, At: at}, Store: "S3"},
				HandBack:      4,
				Store:         &state.Store{Provider: "S3", Container: "bucket", Prefix: "p", SecretName: "s"},
			}
		}
	)

	It("has a persisted form that never changes", func() {
		recorded := complete()
		taken := state.VerifiedSnapshot{Name: "Full-1", Revision: 7, At: at, LastRevision: 8, Store: "S3", PodCreationTime: at}
		recorded.EtcdVersion, recorded.Accepted.EtcdVersion = "3.4", "3.5"
		recorded.Accepted.Defaults.ImageSets["3.5"] = state.Images{EtcdWrapper: "w5", BackupRestore: "b5", Init: "i"}
		recorded.Snapshot = state.SnapshotAttempts{
			Generation: 3, StartedAt: at, EndedAt: at.Add(time.Minute), Failures: 1, Expired: 2, Error: "no answer", Verified: &taken,
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

	It("has a version that operators without images of etcd 3.5 refuse, while etcd is newer than 3.4", func() {
		encoded, err := state.State{Size: 3, EtcdVersion: "3.5"}.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(HaveKeyWithValue(prefix+"state", `{"version":2,"size":3,"etcdVersion":"3.5"}`))
		Expect(state.Decode(encoded)).To(Equal(state.State{Size: 3, EtcdVersion: "3.5"}))
		Expect(state.State{EtcdVersion: "3.4"}.Encode()).To(HaveKeyWithValue(prefix+"state", HavePrefix(`{"version":1,`)))
	})

	It("has a version that operators without scale-in refuse, while members are removed", func() {
		scaling := state.State{Size: 3, ScaleIn: &state.ScaleIn{To: 1, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Removing: true}}
		encoded, err := scaling.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(HaveKeyWithValue(prefix+"state", `{"version":3,"size":3,"scale":{"to":1,"since":"2026-01-02T03:04:05Z","removing":true}}`))
		Expect(state.Decode(encoded)).To(Equal(scaling))
		scaling.ScaleIn = nil
		Expect(scaling.Encode()).To(HaveKeyWithValue(prefix+"state", HavePrefix(`{"version":1,`)), "after the scale-in")
	})

	It("has a version that operators without surges refuse, while a temporary member may exist", func() {
		surging := state.State{Size: 2, Surge: &state.Surge{Phase: state.SurgeReturn, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Cause: "its pod template has changed", Pod: "pod", Claim: "claim"}}
		encoded, err := surging.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(HaveKeyWithValue(prefix+"state", `{"version":4,"size":2,"surge":{"phase":"Return","since":"2026-01-02T03:04:05Z","cause":"its pod template has changed","pod":"pod","claim":"claim"}}`))
		Expect(state.Decode(encoded)).To(Equal(surging))
		for _, phase := range []state.SurgePhase{state.SurgeRequested, state.SurgeAborted} {
			surging.Surge.Phase = phase
			Expect(surging.Encode()).To(HaveKeyWithValue(prefix+"state", HavePrefix(`{"version":1,`)), "no temporary member exists")
		}
	})

	It("has a version that operators without volume migrations refuse, also before an extra member exists", func() {
		migrating := state.State{Size: 4, Migration: &state.Migration{Phase: state.MigrationReplace, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Cause: "cause", Claim: "claim"}}
		encoded, err := migrating.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(HaveKeyWithValue(prefix+"state", `{"version":5,"size":4,"migration":{"phase":"Replace","since":"2026-01-02T03:04:05Z","cause":"cause","claim":"claim"}}`))
		Expect(state.Decode(encoded)).To(Equal(migrating))
		migrating.Migration.Phase = state.MigrationRequested
		Expect(migrating.Encode()).To(HaveKeyWithValue(prefix+"state", HavePrefix(`{"version":5,`)), "an operator without it would refuse the generation for ever")
	})

	It("has a version that operators without comparisons refuse, while members have different data or a volume with wrong data has a claim", func() {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		differing := state.State{Size: 3, Inconsistency: &state.Inconsistency{
			Since: at, At: at.Add(time.Minute), Revision: 7, Compacted: 5, Comparisons: 2, Members: []state.MemberHash{{Name: "main-0", ID: "a0", Hash: 1}},
		}}
		encoded, err := differing.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(HaveKeyWithValue(prefix+"state", `{"version":6,"size":3,"inconsistency":{"since":"2026-01-02T03:04:05Z","at":"2026-01-02T03:05:05Z","revision":7,"compacted":5,"comparisons":2,`+
			`"members":[{"name":"main-0","id":"a0","hash":1}]}}`))
		Expect(state.Decode(encoded)).To(Equal(differing))

		volume := state.RetainedVolume{Name: "pv", UID: "pv-uid", Claim: "main-main-0", ClaimUID: "claim-uid", ReclaimPolicy: "Delete", At: at}
		Expect(state.State{Retained: []state.RetainedVolume{volume}}.Encode()).To(HaveKeyWithValue(prefix+"state", HavePrefix(`{"version":1,`)), "a volume that a restore gave up")
		volume.Kept = true
		encoded, err = state.State{Retained: []state.RetainedVolume{volume}}.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(HaveKeyWithValue(prefix+"state", `{"version":6,"retained":[{"name":"pv","uid":"pv-uid","claim":"main-main-0","claimUID":"claim-uid","reclaimPolicy":"Delete","at":"2026-01-02T03:04:05Z","kept":true}]}`))
		Expect(state.Decode(encoded)).To(Equal(state.State{Retained: []state.RetainedVolume{volume}}))
	})

	It("has a version that operators without recoveries refuse, from the choice until the volumes are discarded", func() {
		recovering := state.State{Size: 3, Restore: state.RestoreRecover, Recovery: &state.Recovery{
			LostAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Source: state.RecoverMembers, Token: "members-12345678", By: "a user", Revision: 7, Known: 7,
		}}
		encoded, err := recovering.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(HaveKeyWithValue(prefix+"state", `{"version":7,"size":3,"restore":"recover",`+
			`"recovery":{"lostAt":"2026-01-02T03:04:05Z","source":"members","token":"members-12345678","by":"a user","revision":7,"known":7}}`))
		Expect(state.Decode(encoded)).To(Equal(recovering))
		recovering.Restore = state.RestoreDiscard
		Expect(recovering.Encode()).To(HaveKeyWithValue(prefix+"state", HavePrefix(`{"version":7,`)), "an earlier operator could start the members again")
		recovering.Restore, recovering.Recovery = state.RestoreStart, nil
		Expect(recovering.Encode()).To(HaveKeyWithValue(prefix+"state", HavePrefix(`{"version":1,`)), "every operator with restores continues it")
	})

	It("contains what a quorum has confirmed after the loss of a member", func() {
		lost := state.State{Incident: &state.Incident{
			ClusterID: "7", Voters: []state.Voter{{Name: "main-0", ID: "a"}}, Lost: []state.LostVoter{{Voter: state.Voter{Name: "main-0", ID: "a"}, Claim: "claim", Deleted: true}},
			Confirmed: []string{"b"}, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		}}
		encoded, err := lost.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(encoded).To(HaveKeyWithValue(prefix+"state", `{"version":1,"incident":{"clusterID":"7","voters":[{"name":"main-0","id":"a"}],`+
			`"lost":[{"name":"main-0","id":"a","claim":"claim","deleted":true}],"confirmed":["b"],"at":"2026-01-02T03:04:05Z"}}`))
		Expect(state.Decode(encoded)).To(Equal(lost))
	})

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
		Entry("if a newer operator wrote it", `{"version":8,"size":3}`, "has version 8, and this operator reads versions up to 7"),
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

	DescribeTable("compares rotations", func(a, b *state.Rotation, expected bool) {
		Expect(a.IsSame(b)).To(Equal(expected))
	},
		Entry("none and none", nil, nil, true),
		Entry("one and none", &state.Rotation{}, nil, false),
		Entry("the same time in two time zones", &state.Rotation{StartedAt: at}, &state.Rotation{StartedAt: at.In(time.FixedZone("x", 3600))}, true),
		Entry("two stages", &state.Rotation{Stage: state.StagePrepared}, &state.Rotation{}, false),
	)
})
