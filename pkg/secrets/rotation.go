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

// automaticCompletionDelay is how long a rotation that began by itself rests before it is completed by itself.
const automaticCompletionDelay = 7 * 24 * time.Hour

// serverCA signs what members present to clients.
func serverCA(s state.RotationStage) secretsmanager.SignedByCAOption {
	switch s {
	case state.StagePrepareBundle, state.StagePrepareLeaves, state.StagePrepared:
		return secretsmanager.UseOldCA
	default:
		return secretsmanager.UseCurrentCA
	}
}

// clientCA signs what is presented by those who connect.
func clientCA(s state.RotationStage) secretsmanager.SignedByCAOption {
	if s == state.StagePrepareBundle {
		return secretsmanager.UseOldCA
	}

	return secretsmanager.UseCurrentCA
}

// isBeforeCompletion is true for stages in which everybody may still trust the old CA alone.
func isBeforeCompletion(s state.RotationStage) bool {
	return s == state.StagePrepareBundle || s == state.StagePrepareLeaves || s == state.StagePrepared
}

// NeedsHandshake is true for stages that are left only after a handshake with every member.
func NeedsHandshake(s state.RotationStage) bool {
	return s != state.StageIdle && s != state.StagePrepared
}

// DescribeRotation says in words what is being done; empty when nothing is.
func DescribeRotation(r state.Rotation) string {
	switch r.Stage {
	case state.StageIdle:
		return ""
	case state.StagePrepareBundle:
		return "the CAs are rotated: members learn to trust the new CA beside the old one"
	case state.StagePrepareLeaves:
		return "the CAs are rotated: clients and members get certificates of the new CA to connect with"
	case state.StagePrepared:
		return "the rotation of the CAs is prepared: clients must trust the bundle before it is completed"
	case state.StageCompleteLeaves:
		return "the CAs are rotated: members get certificates of the new CA to present to clients"
	default:
		return "the CAs are rotated: the old CA is trusted no longer"
	}
}

// RotationInput is what a decision about the rotation of the CAs depends on.
type RotationInput struct {
	// Gardener is the rotation of the shoot or garden that the Etcd belongs to. Nil: it belongs to none, and
	// annotations and expiry decide.
	Gardener *GardenerRotation
	// Annotation is the value of the annotation druid.gardener.cloud/rotate-ca.
	Annotation string
	// CAs are the CAs that exist, of clients and peers.
	CAs []CA
	// Now is the time.
	Now time.Time
}

// GardenerRotation is the state of the rotation of CAs of a shoot or a garden.
type GardenerRotation struct {
	// Phase of the rotation. Empty: there never was one.
	Phase gardencorev1beta1.CredentialsRotationPhase
	// InitiatedAt is when it last began. Zero: never.
	InitiatedAt time.Time
}

// CA is a CA that exists.
type CA struct {
	// ConfigName is the name of its config.
	ConfigName string
	// CreatedAt is when its Secret was created.
	CreatedAt time.Time
	// RotationStartedAt is when it was asked for. Zero: it is the first.
	RotationStartedAt time.Time
	// NotBefore and NotAfter are the times between which it is valid. Zero: not known.
	NotBefore, NotAfter time.Time
}

// Next returns the rotation to render now. It begins a rotation that is requested, and completes one that is prepared. recorded is the
// rotation in the record of the ManagedResource. Nil: none is recorded. Then no rotation begins, since it must be recorded first. AdvanceRotation
// ends the stages in which members have to be observed.
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

// Begins is true for a rotation of Next that begins now. The operator records it before it generates a CA for it, since the time of its start
// gives the CA its name. An operator that begins again after an interruption would generate another CA, and the library keeps only one
// in addition to the newest. The CA that all members trust would be lost.
func Begins(r state.Rotation, recorded *state.Rotation) bool {
	return recorded != nil && recorded.Stage == state.StageIdle && r.Stage != state.StageIdle
}

// adoptRotation returns the rotation for which there is a CA already, though it is not remembered; the same where there is none.
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

// reconstructRotation finds out from the CAs themselves what was forgotten. Where an old CA exists nobody knows who trusts which, so
// that the rotation begins again with the trust in both.
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
		rotation.StartedAt = input.Gardener.InitiatedAt // a new CA has nothing to be rotated for
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

// expires is true when the newest CA of a kind has lived four fifths of its time.
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

// RenewAt is when a certificate is to be renewed: after four fifths of its time, and at least ten days before its end.
// The secrets manager counts alike.
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

// CompletesAt is when a rotation that began by itself is completed by itself. Zero: it is not, or not yet.
func CompletesAt(r state.Rotation) time.Time {
	if !r.Automatic || r.Stage != state.StagePrepared {
		return time.Time{}
	}

	return r.PreparedAt.Add(automaticCompletionDelay)
}

// AdvanceRotation returns the rotation after all members were seen to run what the stage renders and, where it NeedsHandshake, after
// a handshake with each. The old CA has to be deleted before StageCompleteBundle is left.
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

// HasConsumed says whether a remembered rotation has taken up what the annotation asks for, so that the annotation can go.
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

// LibraryRotation is what to tell the library about the rotation of the shoot or garden: when it began as far as it was
// taken up, and the lesser of its phase and of what was observed. The library drops an old CA as soon as it hears
// Completing, whoever still trusts nothing else.
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

// CheckAnnotation returns an error for a value of the annotation druid.gardener.cloud/rotate-ca that means nothing.
func CheckAnnotation(value string) error {
	switch value {
	case "", druidv1alpha1.RotateCAStart, druidv1alpha1.RotateCAComplete:
		return nil
	default:
		return fmt.Errorf("metadata.annotations[%s]: %q means nothing: use %s or %s", druidv1alpha1.RotateCAAnnotation, value, druidv1alpha1.RotateCAStart, druidv1alpha1.RotateCAComplete)
	}
}
