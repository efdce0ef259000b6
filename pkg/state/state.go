// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// State is the durable record of the operator about one Etcd. The zero value is the record of an Etcd that was never rendered. Names in JSON
// never change. No field may have the key "stage": users search the annotation for it.
type State struct {
	// Accepted is the generation that was accepted last. Nil: none.
	Accepted *Accepted `json:"accepted,omitempty"`
	// Replicas are the pods that were rendered last. Nil: not known.
	Replicas *int32 `json:"replicas,omitempty"`
	// Size is the last cluster size above 0. 0: the cluster never ran.
	Size int32 `json:"size,omitempty"`
	// Started are the last replicas above 0 that were rendered. Each of these members may have joined the cluster, and its sidecar may have
	// promoted it, without an observation of it. 0: there were none.
	Started int32 `json:"started,omitempty"`
	// ScaleIn is the removal of members that is under way. Nil: none is.
	ScaleIn *ScaleIn `json:"scale,omitempty"`
	// Surge is the replacement of the only member through a temporary one, or the last such attempt. Nil: there was none, or it is complete.
	Surge *Surge `json:"surge,omitempty"`
	// Migration is the replacement of the volumes of a multi-member cluster that is under way. Nil: none is.
	Migration *Migration `json:"migration,omitempty"`
	// DefaultUpdateStrategy is the update strategy of Etcds without one, in the configuration of the operator that wrote the record. Empty: Restart.
	DefaultUpdateStrategy druidv1alpha1.UpdateStrategy `json:"defaultUpdateStrategy,omitempty"`
	// PodSize is the size for which the pod of the only member was rendered, if that is larger than Size. A scale-in to one member does not
	// restart it, and the pod template stays until another change. 0: Size.
	PodSize int32 `json:"podSize,omitempty"`
	// Existing is the cluster that the Etcd has joined. Nil: it has joined none.
	Existing *Existing `json:"existing,omitempty"`
	// InitialClusterToken is the token with which etcd-druid formed an adopted cluster. Empty: the cluster is not adopted.
	InitialClusterToken string `json:"initialClusterToken,omitempty"`
	// TLS are the TLS modes that were rendered last. The zero value: not known.
	TLS TLSModes `json:"tls,omitzero"`
	// Rotation is the newest rotation of the CAs. Nil: none was recorded.
	Rotation *Rotation `json:"rotation,omitempty"`
	// Rollout is the update to other defaults of the operator that was begun last. Nil: there was none, or the Etcd has other defaults since.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Restore is the phase of a restore from the backup store that is under way.
	Restore RestorePhase `json:"restore,omitempty"`
	// Verified are the facts with which that restore began. Nil: none is under way, or a user requested it without a verification.
	Verified *VerifiedRestore `json:"verified,omitempty"`
	// Retained are the volumes that restores gave up and whose original reclaim policy is not set again, sorted by name. Volumes with wrong data are among
	// them until their claims are deleted. Nil: none.
	Retained []RetainedVolume `json:"retained,omitempty"`
	// Snapshot are the attempts to take a full snapshot before members stop or a volume is deleted. The zero value: there was none.
	Snapshot SnapshotAttempts `json:"snapshot,omitzero"`
	// FinalSnapshot is the snapshot with which the members were stopped. Nil: the members run, or there is no backup store.
	FinalSnapshot *FinalSnapshot `json:"finalSnapshot,omitempty"`
	// Evidence is what a quorum has confirmed about the data. Nil: nothing was recorded.
	Evidence *Evidence `json:"evidence,omitempty"`
	// Incident is what a quorum has confirmed after voting members had lost their data. Nil: none has, or all have been replaced.
	Incident *Incident `json:"incident,omitempty"`
	// Recovery is the recovery from a quorum that is lost forever. Nil: none is.
	Recovery *Recovery `json:"recovery,omitempty"`
	// Space is how the operator frees space in full databases, or when it did so last. Nil: no database was full.
	Space *Space `json:"space,omitempty"`
	// Inconsistency is a difference between the data of voting members. Nil: none was found, or the data is the same again.
	Inconsistency *Inconsistency `json:"inconsistency,omitempty"`
	// HandBack is the generation of the Etcd at which it began to be handed back to etcd-druid. 0: it is not handed back.
	HandBack int64 `json:"handBack,omitempty"`
	// EtcdVersion is the minor version of etcd, such as 3.5, that was rendered last. Empty: nothing was rendered, or it is not
	// known, see Accepted.EtcdVersion.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Store is the location to which the cluster writes its snapshots. It has its own annotation, which users remove. Nil: none was
	// recorded, or see StoreError.
	Store *Store `json:"-"`
	// StoreError is why the record of the store cannot be read. Empty: it can, or there is none.
	StoreError string `json:"-"`
	// RestoreDrill is what restore drills have found. It has its own annotation, which another controller writes. Nil: there was none.
	RestoreDrill *RestoreDrill `json:"-"`
	// Unknown are the keys of the record that this version of the operator does not know. It keeps them. Nil: none.
	Unknown map[string]json.RawMessage `json:"-"`
}

// Decode reads the record from the annotations of a ManagedResource. The error says why it cannot be read, and what to do: nothing may be
// decided then. Only the record of the store has an error of its own, since a user edits it.
func Decode(annotations map[string]string) (State, error) {
	s, err := decode(annotations[druidv1alpha1.ManagedResourceAnnotationState])
	store, storeErr := ParseStore(annotations[druidv1alpha1.ManagedResourceAnnotationStore])
	if storeErr != nil {
		s.StoreError = storeErr.Error()
	}
	s.Store, s.RestoreDrill = store, ParseRestoreDrill(annotations)

	return s, err
}

func decode(text string) (s State, err error) {
	if text == "" {
		return s, nil
	}
	header := struct {
		Version int `json:"version"`
	}{}
	var unknown map[string]json.RawMessage
	for _, into := range []any{&header, &s, &unknown} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return State{}, fmt.Errorf("the annotation %s cannot be read, restore it from a backup of the ManagedResource: %w", druidv1alpha1.ManagedResourceAnnotationState, err)
		}
	}
	if header.Version < 1 {
		return State{}, fmt.Errorf("the annotation %s has no version, restore it from a backup of the ManagedResource", druidv1alpha1.ManagedResourceAnnotationState)
	}
	if header.Version > Version {
		return State{}, fmt.Errorf("the annotation %s has version %d, and this operator reads versions up to %d: use the operator that wrote it, or a newer one",
			druidv1alpha1.ManagedResourceAnnotationState, header.Version, Version)
	}
	for _, number := range s.memberCounts() {
		if number < 0 || number > maxMembers {
			return State{}, fmt.Errorf("the annotation %s has %d members, restore it from a backup of the ManagedResource", druidv1alpha1.ManagedResourceAnnotationState, number)
		}
	}
	maps.DeleteFunc(unknown, func(key string, _ json.RawMessage) bool {
		return slices.ContainsFunc(keys, func(known string) bool { return strings.EqualFold(known, key) }) // as in encoding/json
	})
	if len(unknown) > 0 {
		s.Unknown = unknown
	}

	return s, nil
}

// maxMembers is the largest number of members in a record. The API allows fewer. The operator uses memory for each of them.
const maxMembers = 1000

// memberCounts are the numbers of members in the record.
func (s State) memberCounts() []int32 {
	counts := []int32{s.Size, s.Started, s.PodSize}
	if s.Replicas != nil {
		counts = append(counts, *s.Replicas)
	}
	if s.ScaleIn != nil {
		counts = append(counts, s.ScaleIn.To)
	}

	return counts
}

// keys are the keys of the record.
var keys = []string{
	"version", "accepted", "replicas", "size", "started", "scale", "surge", "defaultUpdateStrategy", "migration", "podSize", "existing", "initialClusterToken", "tls", "rotation", "rollout", "restore", "verified", "retained", "snapshot", "finalSnapshot", "evidence", "incident", "recovery", "inconsistency", "space", "handBack", "etcdVersion",
}

// Encode returns the annotations that record the state. The annotation of the store is left out if Store is nil.
func (s State) Encode() (map[string]string, error) {
	s.Accepted = s.Accepted.fitting()
	known, err := json.Marshal(struct {
		Version int `json:"version"`
		State
	}{Version, s})
	if err != nil {
		return nil, fmt.Errorf("recording the state: %w", err)
	}
	if len(s.Unknown) > 0 {
		merged := maps.Clone(s.Unknown)
		if err := json.Unmarshal(known, &merged); err != nil {
			return nil, fmt.Errorf("recording the state: %w", err)
		}
		if known, err = json.Marshal(merged); err != nil {
			return nil, fmt.Errorf("recording the state: %w", err)
		}
	}
	annotations := map[string]string{druidv1alpha1.ManagedResourceAnnotationState: string(known)}
	if s.Store == nil {
		return annotations, nil
	}
	annotations[druidv1alpha1.ManagedResourceAnnotationStore], err = s.Store.Marshal()

	return annotations, err
}

// Update returns a copy of the annotations of a ManagedResource in which the record is changed. The annotation of the store and all others stay
// as they are.
func Update(annotations map[string]string, change func(*State)) (map[string]string, error) {
	s, err := Decode(annotations)
	if err != nil {
		return nil, err
	}
	change(&s)
	recorded, err := s.Encode()
	if err != nil {
		return nil, err
	}
	updated := maps.Clone(annotations)
	if updated == nil {
		updated = map[string]string{}
	}
	updated[druidv1alpha1.ManagedResourceAnnotationState] = recorded[druidv1alpha1.ManagedResourceAnnotationState]

	return updated, nil
}

// IsSame compares two records, with those of the store.
func (s State) IsSame(other State) bool {
	a, err := s.Encode()
	if err != nil {
		return false
	}
	b, err := other.Encode()

	return err == nil && maps.Equal(a, b) && s.StoreError == other.StoreError
}
