// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"strconv"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// State is the durable record of the operator about one Etcd. The zero value is the record of an Etcd that was never rendered.
type State struct {
	// Accepted is the generation that was accepted last. Nil: none, or the record cannot be read.
	Accepted *Accepted
	// Replicas are the pods that were rendered last. Nil: not known.
	Replicas *int32
	// Size is the last cluster size above 0. 0: the cluster never ran.
	Size int32
	// InitialClusterToken is the token with which etcd-druid formed an adopted cluster. Empty: the cluster is not adopted.
	InitialClusterToken string
	// TLS are the TLS modes that were rendered last. The zero value: not known.
	TLS TLSModes
	// Rotation is the newest rotation of the CAs. Nil: none was recorded.
	Rotation *Rotation
	// Restore is the phase of a restore from the backup store that is under way.
	Restore RestorePhase
	// FinalSnapshot is the snapshot with which the members were stopped. Nil: the members run, or there is no backup store.
	FinalSnapshot *FinalSnapshot
	// HandBack is the generation of the Etcd at which it began to be handed back to etcd-druid. 0: it is not handed back. -1: it is,
	// and the generation cannot be read.
	HandBack int64
	// Store is the location to which the cluster writes its snapshots. Nil: none was recorded, or see StoreError.
	Store *Store
	// StoreError is why the record of the store cannot be read. Empty: it can, or there is none.
	StoreError string
}

// unknownGeneration is the generation of a hand-back that is recorded and cannot be read.
const unknownGeneration = -1

// Decode reads the record from the annotations of a ManagedResource. A part that cannot be read counts as not recorded. Only the record of
// the store then has an error, since a user edits it.
func Decode(annotations map[string]string) State {
	s := State{
		Accepted:            parseAccepted(annotations[druidv1alpha1.ManagedResourceAnnotationDefaults]),
		Replicas:            parseReplicas(annotations[druidv1alpha1.ManagedResourceAnnotationReplicas]),
		InitialClusterToken: annotations[druidv1alpha1.ManagedResourceAnnotationInitialClusterToken],
		TLS:                 ParseTLSModes(annotations[druidv1alpha1.ManagedResourceAnnotationTLSMode]),
		Restore:             RestorePhase(annotations[druidv1alpha1.ManagedResourceAnnotationRestore]),
		FinalSnapshot:       ParseFinalSnapshot(annotations[druidv1alpha1.ManagedResourceAnnotationFinalSnapshot]),
	}
	if size, err := strconv.ParseInt(annotations[druidv1alpha1.ManagedResourceAnnotationSize], 10, 32); err == nil {
		s.Size = int32(size)
	}
	if rotation, found := ParseRotation(annotations[druidv1alpha1.ManagedResourceAnnotationCARotation]); found {
		s.Rotation = &rotation
	}
	if text := annotations[druidv1alpha1.ManagedResourceAnnotationGivingBack]; text != "" {
		s.HandBack = unknownGeneration
		if generation, err := strconv.ParseInt(text, 10, 64); err == nil {
			s.HandBack = generation
		}
	}
	store, err := ParseStore(annotations[druidv1alpha1.ManagedResourceAnnotationStore])
	if err != nil {
		s.StoreError = err.Error()
	}
	s.Store = store

	return s
}

// parseReplicas returns nil for what was never written or cannot be read.
func parseReplicas(text string) *int32 {
	replicas, err := strconv.ParseInt(text, 10, 32)
	if err != nil || replicas < 0 {
		return nil
	}

	return new(int32(replicas))
}

// Encode returns the annotations that record the state. A part that previous has and that s does not have becomes an empty annotation. A
// part that neither has is left out.
func (s State) Encode(previous State) (map[string]string, error) {
	recorded, err := s.encode()
	if err != nil {
		return nil, err
	}
	before, err := previous.encode()
	if err != nil {
		return nil, err
	}
	for key := range before {
		if _, found := recorded[key]; !found {
			recorded[key] = ""
		}
	}

	return recorded, nil
}

func (s State) encode() (map[string]string, error) {
	annotations := map[string]string{}
	set := func(key, value string) {
		if value != "" {
			annotations[key] = value
		}
	}
	set(druidv1alpha1.ManagedResourceAnnotationInitialClusterToken, s.InitialClusterToken)
	set(druidv1alpha1.ManagedResourceAnnotationRestore, string(s.Restore))
	if s.Replicas != nil {
		set(druidv1alpha1.ManagedResourceAnnotationReplicas, strconv.Itoa(int(*s.Replicas)))
	}
	if s.Size > 0 {
		set(druidv1alpha1.ManagedResourceAnnotationSize, strconv.Itoa(int(s.Size)))
	}
	if s.TLS.IsKnown() {
		set(druidv1alpha1.ManagedResourceAnnotationTLSMode, s.TLS.String())
	}
	if s.Rotation != nil {
		set(druidv1alpha1.ManagedResourceAnnotationCARotation, s.Rotation.String())
	}
	if s.HandBack != 0 {
		set(druidv1alpha1.ManagedResourceAnnotationGivingBack, strconv.FormatInt(s.HandBack, 10))
	}

	return annotations, s.encodeRecords(set)
}

// encodeRecords sets the annotations whose encoding may fail.
func (s State) encodeRecords(set func(key, value string)) error {
	if s.Accepted != nil {
		text, err := s.Accepted.marshal()
		if err != nil {
			return err
		}
		set(druidv1alpha1.ManagedResourceAnnotationDefaults, text)
	}
	if s.FinalSnapshot != nil {
		text, err := s.FinalSnapshot.Marshal()
		if err != nil {
			return err
		}
		set(druidv1alpha1.ManagedResourceAnnotationFinalSnapshot, text)
	}
	if s.Store != nil {
		text, err := s.Store.Marshal()
		if err != nil {
			return err
		}
		set(druidv1alpha1.ManagedResourceAnnotationStore, text)
	}

	return nil
}

// Update returns a copy of the annotations of a ManagedResource in which the record is changed. Other annotations, and parts of the record
// that do not change, stay as they are.
func Update(annotations map[string]string, change func(*State)) (map[string]string, error) {
	before := Decode(annotations)
	after := before
	change(&after)
	old, err := before.encode()
	if err != nil {
		return nil, err
	}
	recorded, err := after.Encode(before)
	if err != nil {
		return nil, err
	}
	updated := maps.Clone(annotations)
	if updated == nil {
		updated = map[string]string{}
	}
	for key, value := range recorded {
		if value != old[key] {
			updated[key] = value
		}
	}

	return updated, nil
}
