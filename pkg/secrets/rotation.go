// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"fmt"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// automaticCompletionDelay is the time between the preparation of an automatic rotation and its automatic completion.
const automaticCompletionDelay = 7 * 24 * time.Hour

// serverCA selects the CA that signs server certificates.
func serverCA(s state.RotationStage) secretsmanager.SignedByCAOption {
	switch s {
	case state.StagePrepareBundle, state.StagePrepareLeaves, state.StagePrepared:
		return secretsmanager.UseOldCA
	default:
		return secretsmanager.UseCurrentCA
	}
}

// clientCA selects the CA that signs client and peer certificates.
func clientCA(s state.RotationStage) secretsmanager.SignedByCAOption {
	if s == state.StagePrepareBundle {
		return secretsmanager.UseOldCA
	}

	return secretsmanager.UseCurrentCA
}

// isBeforeCompletion is true for stages in which a client may still trust only the old CA.
func isBeforeCompletion(s state.RotationStage) bool {
	return s == state.StagePrepareBundle || s == state.StagePrepareLeaves || s == state.StagePrepared
}

// NeedsHandshake is true for stages that end only after a TLS handshake with every member.
func NeedsHandshake(s state.RotationStage) bool {
	return s != state.StageIdle && s != state.StagePrepared
}

// DescribeRotation describes the current stage for messages. Empty: no rotation is in progress.
func DescribeRotation(r state.Rotation) string {
	switch r.Stage {
	case state.StageIdle:
		return ""
	case state.StagePrepareBundle:
		return "the CAs are rotated: members start to trust the new CA in addition to the old one"
	case state.StagePrepareLeaves:
		return "the CAs are rotated: clients and members get certificates of the new CA to connect with"
	case state.StagePrepared:
		return "the rotation of the CAs is prepared: clients must trust the bundle before it is completed"
	case state.StageCompleteLeaves:
		return "the CAs are rotated: members get certificates of the new CA to present to clients"
	default:
		return "the CAs are rotated: members trust only the new CA"
	}
}

// RotationInput is the input for decisions about the CA rotation.
type RotationInput struct {
	// Gardener is the rotation of the shoot or garden to which the Etcd belongs. Nil: it belongs to none, and the annotation
	// and the expiry decide.
	Gardener *GardenerRotation
	// Annotation is the value of the annotation druid.gardener.cloud/rotate-ca.
	Annotation string
	// CAs are the existing CAs for clients and peers.
	CAs []CA
	// Now is the current time.
	Now time.Time
}

// GardenerRotation is the state of the CA rotation of a shoot or a garden.
type GardenerRotation struct {
	// Phase is the phase of the rotation. Empty: there was no rotation.
	Phase gardencorev1beta1.CredentialsRotationPhase
	// InitiatedAt is the start of the last rotation. Zero: there was none.
	InitiatedAt time.Time
}

// CA is an existing CA.
type CA struct {
	// ConfigName is the name of its config.
	ConfigName string
	// CreatedAt is the creation time of its Secret.
	CreatedAt time.Time
	// RotationStartedAt is the start of the rotation for which it was generated. Zero: it is the first CA.
	RotationStartedAt time.Time
	// NotBefore and NotAfter are the limits of its validity. Zero: unknown.
	NotBefore, NotAfter time.Time
}

// Next returns the rotation to render now. It begins a requested rotation and completes a prepared one. recorded is the
// rotation in the record of the ManagedResource. Nil: none is recorded. Then no rotation begins, since it must be recorded
// first. AdvanceRotation ends the stages in which members must be observed.
func Next(recorded *state.Rotation, input RotationInput) state.Rotation {
	if recorded == nil || len(input.CAs) == 0 {
		return reconstructRotation(input)
	}
	rotation := *recorded
	switch rotation.Stage {
	case state.StageIdle:
		if rotation = adoptRotation(rotation, input); rotation.Stage != state.StageIdle {
			return rotation
		}

		return beginRotation(rotation, input)
	case state.StagePrepared:
		if shouldComplete(rotation, input) {
			rotation.Stage = state.StageCompleteLeaves
		}
	}

	return rotation
}

// Begins is true if Next begins the rotation now. The operator records it before it generates the CA, since the start time is
// part of the name of the CA. If an interrupted operator began the rotation again, it would generate another CA. The library
// keeps only the newest CA and one older one, so that the CA that all members trust would be lost.
func Begins(r state.Rotation, recorded *state.Rotation) bool {
	return recorded != nil && recorded.Stage == state.StageIdle && r.Stage != state.StageIdle
}

// adoptRotation returns the rotation of a CA that exists although its rotation is not recorded. Without such a CA it returns
// r.
func adoptRotation(r state.Rotation, input RotationInput) state.Rotation {
	before := input
	before.CAs = slices.DeleteFunc(slices.Clone(input.CAs), func(ca CA) bool { return ca.RotationStartedAt.After(r.StartedAt) })
	if len(before.CAs) == len(input.CAs) {
		return r
	}
	adopted := reconstructRotation(input)
	adopted.Automatic = adopted.Stage != state.StageIdle && input.Gardener == nil && input.Annotation != druidv1alpha1.RotateCAStart && expires(before)

	return adopted
}

// reconstructRotation returns the rotation that the existing CAs imply. If an old CA exists, it is unknown which CA each
// client trusts. The rotation then starts again with the bundle of both.
func reconstructRotation(input RotationInput) state.Rotation {
	var rotation state.Rotation
	perConfig := map[string]int{}
	for _, ca := range input.CAs {
		perConfig[ca.ConfigName]++
		if ca.RotationStartedAt.After(rotation.StartedAt) {
			rotation.StartedAt = ca.RotationStartedAt
		}
	}
	for _, count := range perConfig {
		if count > 1 {
			rotation.Stage = state.StagePrepareBundle
		}
	}
	if len(input.CAs) == 0 && input.Gardener != nil {
		rotation.StartedAt = input.Gardener.InitiatedAt // a new CA does not need a rotation that started earlier
	}

	return rotation
}

func beginRotation(r state.Rotation, input RotationInput) state.Rotation {
	begun := state.Rotation{StartedAt: input.Now.UTC().Truncate(time.Second), Stage: state.StagePrepareBundle}
	switch {
	case len(input.CAs) == 0:
		return r
	case input.Gardener != nil:
		begun.StartedAt = input.Gardener.InitiatedAt
		if !input.Gardener.InitiatedAt.After(r.StartedAt) {
			return r
		}
	case input.Annotation == druidv1alpha1.RotateCAStart:
	case expires(input):
		begun.Automatic = true
	default:
		return r
	}

	return begun
}

// expires is true if the newest CA of a config is due for renewal, see RenewAt.
func expires(input RotationInput) bool {
	newest := map[string]CA{}
	for _, ca := range input.CAs {
		if known, found := newest[ca.ConfigName]; !found || ca.CreatedAt.After(known.CreatedAt) {
			newest[ca.ConfigName] = ca
		}
	}
	for _, ca := range newest {
		if !ca.NotAfter.IsZero() && input.Now.After(RenewAt(ca.NotBefore, ca.NotAfter)) {
			return true
		}
	}

	return false
}

// RenewAt is the time to renew a certificate: after four fifths of its validity, and at least ten days before its end. The
// secrets manager uses the same rule.
func RenewAt(notBefore, notAfter time.Time) time.Time {
	renewAt := notBefore.Add(notAfter.Sub(notBefore) / 5 * 4)
	if latest := notAfter.Add(-10 * 24 * time.Hour); latest.Before(renewAt) {
		return latest
	}

	return renewAt
}

func shouldComplete(r state.Rotation, input RotationInput) bool {
	switch {
	case input.Gardener != nil:
		return input.Gardener.Phase == gardencorev1beta1.RotationCompleting || input.Gardener.Phase == gardencorev1beta1.RotationCompleted
	case input.Annotation == druidv1alpha1.RotateCAComplete:
		return true
	default:
		return r.Automatic && !input.Now.Before(CompletesAt(r))
	}
}

// CompletesAt is the time of the automatic completion of an automatic rotation. Zero: it is not completed automatically, or
// not prepared yet.
func CompletesAt(r state.Rotation) time.Time {
	if !r.Automatic || r.Stage != state.StagePrepared {
		return time.Time{}
	}

	return r.PreparedAt.Add(automaticCompletionDelay)
}

// AdvanceRotation returns the next stage of the rotation. The caller has observed that all members run the rendered stage and,
// if it NeedsHandshake, has completed a handshake with each member. The old CA must be deleted before StageCompleteBundle
// ends.
func AdvanceRotation(r state.Rotation, now time.Time) state.Rotation {
	switch r.Stage {
	case state.StagePrepareBundle:
		r.Stage = state.StagePrepareLeaves
	case state.StagePrepareLeaves:
		r.Stage, r.PreparedAt = state.StagePrepared, now.UTC().Truncate(time.Second)
	case state.StageCompleteLeaves:
		r.Stage = state.StageCompleteBundle
	case state.StageCompleteBundle:
		r = state.Rotation{StartedAt: r.StartedAt}
	}

	return r
}

// HasConsumed is true if a recorded rotation has taken over the request of the annotation, so that the annotation can be
// removed.
func HasConsumed(r state.Rotation, annotation string) bool {
	switch annotation {
	case druidv1alpha1.RotateCAStart:
		return r.Stage != state.StageIdle
	case druidv1alpha1.RotateCAComplete:
		return !isBeforeCompletion(r.Stage)
	default:
		return false
	}
}

// LibraryRotation returns the rotation for the secrets manager: its start as recorded, and the phase that the observed stage
// has reached. The library deletes an old CA as soon as the phase is Completing, even if a client trusts only this CA. The
// phase must therefore never be ahead of the stage.
func LibraryRotation(r state.Rotation) GardenerRotation {
	phase := gardencorev1beta1.RotationPreparing
	switch r.Stage {
	case state.StageIdle:
		phase = gardencorev1beta1.RotationCompleted
		if r.StartedAt.IsZero() {
			phase = ""
		}
	case state.StagePrepared, state.StageCompleteLeaves:
		phase = gardencorev1beta1.RotationPrepared
	case state.StageCompleteBundle:
		phase = gardencorev1beta1.RotationCompleting
	}

	return GardenerRotation{Phase: phase, InitiatedAt: r.StartedAt}
}

// CheckAnnotation returns an error for an unknown value of the annotation druid.gardener.cloud/rotate-ca.
func CheckAnnotation(value string) error {
	switch value {
	case "", druidv1alpha1.RotateCAStart, druidv1alpha1.RotateCAComplete:
		return nil
	default:
		return fmt.Errorf("metadata.annotations[%s]: %q means nothing: use %s or %s", druidv1alpha1.RotateCAAnnotation, value, druidv1alpha1.RotateCAStart, druidv1alpha1.RotateCAComplete)
	}
}
