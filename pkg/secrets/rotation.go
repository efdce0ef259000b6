// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Stage is how far the rotation of CAs has come. A stage says what is rendered, and is left only when all members were seen
// to run what it renders.
type Stage string

const (
	// StageSettled is the stage of one CA: no rotation is under way.
	StageSettled Stage = ""
	// StagePrepareBundle makes all members trust the new CA beside the old one, which still signs everything.
	StagePrepareBundle Stage = "PrepareBundle"
	// StagePrepareLeaves gives certificates of the new CA to those who connect: clients, and members among each other.
	StagePrepareLeaves Stage = "PrepareLeaves"
	// StagePrepared renders what StagePrepareLeaves does, and rests until the rotation is to be completed. Members still
	// present certificates of the old CA, so that a client has all this time to learn of the new one.
	StagePrepared Stage = "Prepared"
	// StageCompleteLeaves gives certificates of the new CA to members, to present to clients.
	StageCompleteLeaves Stage = "CompleteLeaves"
	// StageCompleteBundle ends the trust in the old CA, and is over when the old CA is deleted.
	StageCompleteBundle Stage = "CompleteBundle"
)

// automaticPause is how long a rotation that began by itself rests before it is completed by itself.
const automaticPause = 7 * 24 * time.Hour

// serverCA signs what members present to clients.
func (s Stage) serverCA() secretsmanager.SignedByCAOption {
	switch s {
	case StagePrepareBundle, StagePrepareLeaves, StagePrepared:
		return secretsmanager.UseOldCA
	default:
		return secretsmanager.UseCurrentCA
	}
}

// clientCA signs what is presented by those who connect.
func (s Stage) clientCA() secretsmanager.SignedByCAOption {
	if s == StagePrepareBundle {
		return secretsmanager.UseOldCA
	}

	return secretsmanager.UseCurrentCA
}

// isBeforeCompletion is true for stages in which everybody may still trust the old CA alone.
func (s Stage) isBeforeCompletion() bool {
	return s == StagePrepareBundle || s == StagePrepareLeaves || s == StagePrepared
}

// NeedsProof is true for stages that are left only after a handshake with every member.
func (s Stage) NeedsProof() bool { return s != StageSettled && s != StagePrepared }

// Rotation is what is remembered about the newest rotation of the CAs of an Etcd. The zero value is a cluster whose CAs
// were never rotated.
type Rotation struct {
	// StartedAt is when the newest CA was asked for, to the second: the secrets manager derives its name from it.
	// Zero: the CA is the first.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Stage of the rotation.
	Stage Stage `json:"stage,omitempty"`
	// PreparedAt is when StagePrepared was reached.
	PreparedAt time.Time `json:"preparedAt,omitzero"`
	// Automatic is true for a rotation that nobody asked for.
	Automatic bool `json:"automatic,omitempty"`
}

// String is the form in which the ManagedResource remembers a rotation: JSON.
func (r Rotation) String() string {
	data, err := json.Marshal(r)
	if err != nil {
		return "" // times beyond the year 9999
	}

	return string(data)
}

// Describe says in words what is being done; empty when nothing is.
func (r Rotation) Describe() string {
	switch r.Stage {
	case StageSettled:
		return ""
	case StagePrepareBundle:
		return "the CAs are rotated: members learn to trust the new CA beside the old one"
	case StagePrepareLeaves:
		return "the CAs are rotated: clients and members get certificates of the new CA to connect with"
	case StagePrepared:
		return "the rotation of the CAs is prepared: clients must trust the bundle before it is completed"
	case StageCompleteLeaves:
		return "the CAs are rotated: members get certificates of the new CA to present to clients"
	default:
		return "the CAs are rotated: the old CA is trusted no longer"
	}
}

// ParseRotation reads what String wrote; false for what it did not write.
func ParseRotation(text string) (Rotation, bool) {
	var rotation Rotation
	if text == "" || json.Unmarshal([]byte(text), &rotation) != nil {
		return Rotation{}, false
	}

	return rotation, true
}

// Asked is who asks for a rotation, and what exists.
type Asked struct {
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

// Next returns the rotation as it is to be carried out now: it begins one that is asked for, and completes one that is
// prepared. remembered is the text that the ManagedResource has. Where it has none, nothing begins: what begins has to be
// remembered first. Stages that need members to be observed are left with Observed alone.
func Next(remembered string, asked Asked) Rotation {
	rotation, found := ParseRotation(remembered)
	if !found || len(asked.CAs) == 0 {
		return recollect(asked)
	}
	switch rotation.Stage {
	case StageSettled:
		if rotation = rotation.takeUp(asked); rotation.Stage != StageSettled {
			return rotation
		}

		return rotation.begin(asked)
	case StagePrepared:
		if rotation.isToComplete(asked) {
			rotation.Stage = StageCompleteLeaves
		}
	}

	return rotation
}

// Begins is true for a rotation of Next that begins now. It has to be remembered before a CA is generated for it, whose name
// comes from the time: who begins once more, after an interruption, would generate another one, and the library keeps but one beside
// the newest. The one that everybody trusts would be lost.
func (r Rotation) Begins(remembered string) bool {
	before, found := ParseRotation(remembered)

	return found && before.Stage == StageSettled && r.Stage != StageSettled
}

// takeUp returns the rotation for which there is a CA already, though it is not remembered; the same where there is none.
func (r Rotation) takeUp(asked Asked) Rotation {
	before := asked
	before.CAs = slices.DeleteFunc(slices.Clone(asked.CAs), func(ca CA) bool { return ca.RotationStartedAt.After(r.StartedAt) })
	if len(before.CAs) == len(asked.CAs) {
		return r
	}
	taken := recollect(asked)
	taken.Automatic = taken.Stage != StageSettled && asked.Gardener == nil && asked.Annotation != druidv1alpha1.RotateCAStart && expires(before)

	return taken
}

// recollect finds out from the CAs themselves what was forgotten. Where an old CA exists nobody knows who trusts which, so
// that the rotation begins again with the trust in both.
func recollect(asked Asked) Rotation {
	var rotation Rotation
	perConfig := map[string]int{}
	for _, ca := range asked.CAs {
		perConfig[ca.ConfigName]++
		if ca.RotationStartedAt.After(rotation.StartedAt) {
			rotation.StartedAt = ca.RotationStartedAt
		}
	}
	for _, count := range perConfig {
		if count > 1 {
			rotation.Stage = StagePrepareBundle
		}
	}
	if len(asked.CAs) == 0 && asked.Gardener != nil {
		rotation.StartedAt = asked.Gardener.InitiatedAt // a new CA has nothing to be rotated for
	}

	return rotation
}

func (r Rotation) begin(asked Asked) Rotation {
	begun := Rotation{StartedAt: asked.Now.UTC().Truncate(time.Second), Stage: StagePrepareBundle}
	switch {
	case len(asked.CAs) == 0:
		return r
	case asked.Gardener != nil:
		begun.StartedAt = asked.Gardener.InitiatedAt
		if !asked.Gardener.InitiatedAt.After(r.StartedAt) {
			return r
		}
	case asked.Annotation == druidv1alpha1.RotateCAStart:
	case expires(asked):
		begun.Automatic = true
	default:
		return r
	}

	return begun
}

// expires is true when the newest CA of a kind has lived four fifths of its time.
func expires(asked Asked) bool {
	newest := map[string]CA{}
	for _, ca := range asked.CAs {
		if known, found := newest[ca.ConfigName]; !found || ca.CreatedAt.After(known.CreatedAt) {
			newest[ca.ConfigName] = ca
		}
	}
	for _, ca := range newest {
		if !ca.NotAfter.IsZero() && asked.Now.After(RenewAt(ca.NotBefore, ca.NotAfter)) {
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

func (r Rotation) isToComplete(asked Asked) bool {
	switch {
	case asked.Gardener != nil:
		return asked.Gardener.Phase == gardencorev1beta1.RotationCompleting || asked.Gardener.Phase == gardencorev1beta1.RotationCompleted
	case asked.Annotation == druidv1alpha1.RotateCAComplete:
		return true
	default:
		return r.Automatic && !asked.Now.Before(r.CompletesAt())
	}
}

// CompletesAt is when a rotation that began by itself is completed by itself. Zero: it is not, or not yet.
func (r Rotation) CompletesAt() time.Time {
	if !r.Automatic || r.Stage != StagePrepared {
		return time.Time{}
	}

	return r.PreparedAt.Add(automaticPause)
}

// Observed returns the rotation after all members were seen to run what the stage renders and, where it NeedsProof, after
// a handshake with each. The old CA has to be deleted before StageCompleteBundle is left.
func (r Rotation) Observed(now time.Time) Rotation {
	switch r.Stage {
	case StagePrepareBundle:
		r.Stage = StagePrepareLeaves
	case StagePrepareLeaves:
		r.Stage, r.PreparedAt = StagePrepared, now.UTC().Truncate(time.Second)
	case StageCompleteLeaves:
		r.Stage = StageCompleteBundle
	case StageCompleteBundle:
		r = Rotation{StartedAt: r.StartedAt}
	}

	return r
}

// Takes says whether a remembered rotation has taken up what the annotation asks for, so that the annotation can go.
func (r Rotation) Takes(annotation string) bool {
	switch annotation {
	case druidv1alpha1.RotateCAStart:
		return r.Stage != StageSettled
	case druidv1alpha1.RotateCAComplete:
		return !r.Stage.isBeforeCompletion()
	default:
		return false
	}
}

// LibraryRotation is what to tell the library about the rotation of the shoot or garden: when it began as far as it was
// taken up, and the lesser of its phase and of what was observed. The library drops an old CA as soon as it hears
// Completing, whoever still trusts nothing else.
func (r Rotation) LibraryRotation() GardenerRotation {
	phase := gardencorev1beta1.RotationPreparing
	switch r.Stage {
	case StageSettled:
		phase = gardencorev1beta1.RotationCompleted
		if r.StartedAt.IsZero() {
			phase = ""
		}
	case StagePrepared, StageCompleteLeaves:
		phase = gardencorev1beta1.RotationPrepared
	case StageCompleteBundle:
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
