// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"encoding/json"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Rotation", func() {
	var (
		now     = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
		before  = now.Add(-time.Hour)
		firstCA = secrets.CA{ConfigName: "main-client-ca", CreatedAt: before}
		newCA   = secrets.CA{ConfigName: "main-client-ca", CreatedAt: now, RotationStartedAt: now}
	)
	shoot := func(phase gardencorev1beta1.CredentialsRotationPhase, initiatedAt time.Time) *secrets.GardenerRotation {
		return &secrets.GardenerRotation{Phase: phase, InitiatedAt: initiatedAt}
	}

	DescribeTable("is begun and completed",
		func(persisted string, input secrets.RotationInput, stage string, startedAt time.Time) {
			if input.Now.IsZero() {
				input.Now = now
			}
			rotation := secrets.Next(recorded(persisted), input)
			Expect(string(rotation.Stage)).To(Equal(stage))
			Expect(rotation.StartedAt).To(BeTemporally("==", startedAt))
		},
		Entry("not before the ManagedResource has a record, since the rotation must be recorded first", "", secrets.RotationInput{CAs: []secrets.CA{firstCA}, Annotation: "start"}, "", time.Time{}),
		Entry("as the one of an existing CA that is not recorded", "{}", secrets.RotationInput{CAs: []secrets.CA{{ConfigName: "main-client-ca", CreatedAt: before, RotationStartedAt: before}, firstCA}, Annotation: "start"}, "PrepareBundle", before),
		Entry("as the one of a shoot with an existing CA", "{}", secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Gardener: shoot("Preparing", now)}, "PrepareBundle", now),
		Entry("again if only the CA of an unrecorded rotation exists", "{}", secrets.RotationInput{CAs: []secrets.CA{{ConfigName: "main-client-ca", CreatedAt: before, RotationStartedAt: before}}, Annotation: "start"}, "PrepareBundle", now),
		Entry("not without a request", "{}", secrets.RotationInput{CAs: []secrets.CA{firstCA}}, "", time.Time{}),
		Entry("by the annotation", "{}", secrets.RotationInput{CAs: []secrets.CA{firstCA}, Annotation: "start"}, "PrepareBundle", now),
		Entry("not by the annotation before there is a CA", "", secrets.RotationInput{Annotation: "start"}, "", time.Time{}),
		Entry("not a second time by the annotation", `{"startedAt":"2026-05-04T02:02:01Z","stage":"PrepareLeaves"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Annotation: "start"}, "PrepareLeaves", before),
		Entry("by the shoot", "{}", secrets.RotationInput{CAs: []secrets.CA{firstCA}, Gardener: shoot("Preparing", now)}, "PrepareBundle", now),
		Entry("not by a shoot that was never rotated", "{}", secrets.RotationInput{CAs: []secrets.CA{firstCA}, Gardener: shoot("", time.Time{})}, "", time.Time{}),
		Entry("not by the annotation in a shoot", "{}", secrets.RotationInput{CAs: []secrets.CA{firstCA}, Gardener: shoot("", time.Time{}), Annotation: "start"}, "", time.Time{}),
		Entry("not by a rotation of the shoot that is recorded already", `{"startedAt":"2026-05-04T03:02:01Z"}`, secrets.RotationInput{CAs: []secrets.CA{newCA}, Gardener: shoot("Completed", now)}, "", now),
		Entry("not by a rotation of the shoot that is older than the cluster", "", secrets.RotationInput{Gardener: shoot("Prepared", before)}, "", before),
		Entry("by the next rotation of the shoot", `{"startedAt":"2026-05-04T02:02:01Z"}`, secrets.RotationInput{CAs: []secrets.CA{firstCA}, Gardener: shoot("Preparing", now)}, "PrepareBundle", now),
		Entry("by expiry", "{}", secrets.RotationInput{CAs: []secrets.CA{{ConfigName: "main-client-ca", NotBefore: now.Add(-81 * time.Hour * 24), NotAfter: now.Add(19 * time.Hour * 24)}}}, "PrepareBundle", now),
		Entry("not by the expiry of an older CA", "{}", secrets.RotationInput{CAs: []secrets.CA{
			{ConfigName: "main-client-ca", CreatedAt: now, NotBefore: now, NotAfter: now.Add(1000 * time.Hour)},
			{ConfigName: "main-client-ca", CreatedAt: before, NotBefore: now.Add(-90 * time.Hour), NotAfter: now.Add(10 * time.Hour)},
		}}, "", time.Time{}),
		Entry("not completed by the annotation before it is prepared", `{"startedAt":"2026-05-04T02:02:01Z","stage":"PrepareLeaves"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Annotation: "complete"}, "PrepareLeaves", before),
		Entry("completed by the annotation", `{"startedAt":"2026-05-04T02:02:01Z","stage":"Prepared"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Annotation: "complete"}, "CompleteLeaves", before),
		Entry("not completed by the shoot before it is prepared here", `{"startedAt":"2026-05-04T02:02:01Z","stage":"PrepareBundle"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Gardener: shoot("Completing", before)}, "PrepareBundle", before),
		Entry("completed by the shoot", `{"startedAt":"2026-05-04T02:02:01Z","stage":"Prepared"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Gardener: shoot("Completing", before)}, "CompleteLeaves", before),
		Entry("completed by a shoot that was faster", `{"startedAt":"2026-05-04T02:02:01Z","stage":"Prepared"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Gardener: shoot("Completed", before)}, "CompleteLeaves", before),
		Entry("left prepared while the shoot is", `{"startedAt":"2026-05-04T02:02:01Z","stage":"Prepared"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Gardener: shoot("Prepared", before)}, "Prepared", before),
		Entry("left prepared by itself for a week", `{"startedAt":"2026-05-04T02:02:01Z","stage":"Prepared","automatic":true,"preparedAt":"2026-04-28T03:02:01Z"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}}, "Prepared", before),
		Entry("completed by itself after a week", `{"startedAt":"2026-05-04T02:02:01Z","stage":"Prepared","automatic":true,"preparedAt":"2026-04-27T03:02:01Z"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}}, "CompleteLeaves", before),
		Entry("left prepared without a limit if a user requested it and does not complete it", `{"startedAt":"2026-05-04T02:02:01Z","stage":"Prepared","preparedAt":"2025-04-27T03:02:01Z"}`, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}}, "Prepared", before),
		Entry("dropped without CAs", `{"startedAt":"2026-05-04T02:02:01Z","stage":"PrepareLeaves"}`, secrets.RotationInput{}, "", time.Time{}),
		Entry("begun again if its record was lost before its completion", "", secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}}, "PrepareBundle", now),
		Entry("not begun if its record was lost after its completion", "", secrets.RotationInput{CAs: []secrets.CA{newCA}}, "", now),
	)

	It("must be recorded before a CA is generated for it", func() {
		input := secrets.RotationInput{CAs: []secrets.CA{firstCA}, Annotation: "start", Now: now}
		begun := secrets.Next(&state.Rotation{}, input)
		Expect(secrets.Begins(begun, &state.Rotation{})).To(BeTrue())

		input.Now = now.Add(2 * time.Second)
		again := secrets.Next(&begun, input)
		Expect(secrets.Begins(again, &begun)).To(BeFalse())
		Expect(again).To(Equal(begun))
		Expect(secrets.Begins(secrets.Next(&state.Rotation{}, secrets.RotationInput{CAs: []secrets.CA{firstCA}, Now: now}), &state.Rotation{})).To(BeFalse(), "not requested")
		Expect(secrets.Begins(secrets.Next(nil, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Now: now}), nil)).To(BeFalse(), "it has its CA")
	})

	DescribeTable("detects an automatic rotation of an existing CA that is not recorded",
		func(input secrets.RotationInput, automatic bool) {
			input.Now = now
			input.CAs = append(input.CAs, secrets.CA{ConfigName: "main-client-ca", CreatedAt: before, RotationStartedAt: before, NotBefore: before, NotAfter: now.Add(1000 * time.Hour)})
			rotation := secrets.Next(&state.Rotation{}, input)
			Expect(rotation).To(And(HaveField("Stage", BeEquivalentTo("PrepareBundle")), HaveField("StartedAt", BeTemporally("==", before)), HaveField("Automatic", automatic)))
		},
		Entry("if the previous CA expires", secrets.RotationInput{CAs: []secrets.CA{{ConfigName: "main-client-ca", NotBefore: now.Add(-90 * time.Hour), NotAfter: now.Add(10 * time.Hour)}}}, true),
		Entry("but not with a request by annotation", secrets.RotationInput{Annotation: "start", CAs: []secrets.CA{{ConfigName: "main-client-ca", NotBefore: now.Add(-90 * time.Hour), NotAfter: now.Add(10 * time.Hour)}}}, false),
		Entry("but not in a shoot", secrets.RotationInput{Gardener: shoot("Preparing", before), CAs: []secrets.CA{{ConfigName: "main-client-ca", NotBefore: now.Add(-90 * time.Hour), NotAfter: now.Add(10 * time.Hour)}}}, false),
		Entry("but not if the previous CA does not expire", secrets.RotationInput{CAs: []secrets.CA{{ConfigName: "main-client-ca", NotBefore: before, NotAfter: now.Add(1000 * time.Hour)}}}, false),
	)

	It("goes through its stages only as members are observed, and waits when it is prepared", func() {
		rotation := secrets.Next(&state.Rotation{}, secrets.RotationInput{CAs: []secrets.CA{firstCA}, Annotation: "start", Now: now})
		var stages, phases []string
		for range 4 {
			stages, phases = append(stages, string(rotation.Stage)), append(phases, string(secrets.LibraryRotation(rotation).Phase))
			rotation = secrets.AdvanceRotation(rotation, now)
		}
		Expect(stages).To(Equal([]string{"PrepareBundle", "PrepareLeaves", "Prepared", "Prepared"}))
		Expect(phases).To(Equal([]string{"Preparing", "Preparing", "Prepared", "Prepared"}))

		rotation = secrets.Next(&rotation, secrets.RotationInput{CAs: []secrets.CA{newCA, firstCA}, Annotation: "complete", Now: now})
		stages, phases = nil, nil
		for range 3 {
			stages, phases = append(stages, string(rotation.Stage)), append(phases, string(secrets.LibraryRotation(rotation).Phase))
			rotation = secrets.AdvanceRotation(rotation, now)
		}
		Expect(stages).To(Equal([]string{"CompleteLeaves", "CompleteBundle", ""}))
		Expect(phases).To(Equal([]string{"Prepared", "Completing", "Completed"}))
		Expect(rotation.StartedAt).To(BeTemporally("==", now))
	})

	It("returns the time of its automatic completion", func() {
		rotation := state.Rotation{Stage: "Prepared", PreparedAt: now, Automatic: true}
		Expect(secrets.CompletesAt(rotation)).To(BeTemporally("==", now.Add(7*24*time.Hour)))
		rotation.Stage = "PrepareLeaves"
		Expect(secrets.CompletesAt(rotation)).To(BeZero())
		Expect(secrets.CompletesAt(state.Rotation{Stage: "Prepared", PreparedAt: now})).To(BeZero(), "the user requested it, and has to complete it")
	})

	DescribeTable("consumes the annotation",
		func(stage, annotation string, expected bool) {
			Expect(secrets.HasConsumed(state.Rotation{Stage: state.RotationStage(stage)}, annotation)).To(Equal(expected))
		},
		Entry("start only when it was begun", "", "start", false),
		Entry("start when it was begun", "PrepareBundle", "start", true),
		Entry("complete not while it is not prepared", "PrepareLeaves", "complete", false),
		Entry("complete not before it continues", "Prepared", "complete", false),
		Entry("complete when it continues", "CompleteLeaves", "complete", true),
		Entry("complete without a rotation", "", "complete", true),
		Entry("nothing without the annotation", "PrepareBundle", "", false),
	)
})

// recorded is the rotation in an annotation of the ManagedResource. Nil: it has none.
func recorded(text string) *state.Rotation {
	rotation := &state.Rotation{}
	if json.Unmarshal([]byte(text), rotation) != nil {
		return nil
	}

	return rotation
}
