// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// Operators without a version of the record wrote these annotations, each with this prefix.
const prefix = "etcd-druid.extensions.gardener.cloud/"

const (
	unversionedAccepted      = prefix + "defaults"
	unversionedReplicas      = prefix + "replicas"
	unversionedSize          = prefix + "size"
	unversionedToken         = prefix + "initial-cluster-token"
	unversionedTLS           = prefix + "tls-mode"
	unversionedRotation      = prefix + "ca-rotation"
	unversionedRestore       = prefix + "restore"
	unversionedFinalSnapshot = prefix + "final-snapshot"
	unversionedHandBack      = prefix + "giving-back"
)

// unknownGeneration is the generation of a hand-back that is recorded and cannot be read.
const unknownGeneration = -1

// RemoveUnversioned removes the annotations of operators that had no version of the record. The operator calls it when it writes the record.
func RemoveUnversioned(annotations map[string]string) {
	for _, key := range []string{
		unversionedAccepted, unversionedReplicas, unversionedSize, unversionedToken, unversionedTLS, unversionedRotation, unversionedRestore,
		unversionedFinalSnapshot, unversionedHandBack,
	} {
		delete(annotations, key)
	}
}

// decodeUnversioned reads the record of an operator that had no version of it. A part that cannot be read counts as not recorded.
func decodeUnversioned(annotations map[string]string) State {
	s := State{
		InitialClusterToken: annotations[unversionedToken],
		TLS:                 ParseTLSModes(annotations[unversionedTLS]),
		Restore:             RestorePhase(annotations[unversionedRestore]),
		Accepted:            parse[Accepted](annotations[unversionedAccepted]),
		Rotation:            parse[Rotation](annotations[unversionedRotation]),
		FinalSnapshot:       parse[FinalSnapshot](annotations[unversionedFinalSnapshot]),
	}
	if completed := parse[struct {
		Completed bool `json:"over"`
	}](annotations[unversionedAccepted]); s.Accepted != nil && completed != nil {
		s.Accepted.Completed = completed.Completed
	}
	if replicas, err := strconv.ParseInt(annotations[unversionedReplicas], 10, 32); err == nil && replicas >= 0 {
		s.Replicas = new(int32(replicas))
	}
	if size, err := strconv.ParseInt(annotations[unversionedSize], 10, 32); err == nil {
		s.Size = int32(size)
	}
	if text := annotations[unversionedHandBack]; text != "" {
		s.HandBack = unknownGeneration
		if generation, err := strconv.ParseInt(text, 10, 64); err == nil {
			s.HandBack = generation
		}
	}

	return s
}

// afterRollback returns the record after an operator without a version of it has rendered the Etcd. Such an operator writes its annotations next to the
// record. This operator removes them with each write of the record. They are therefore newer. The version of etcd stays, since it is never downgraded.
func (s State) afterRollback(rendered State) State {
	if isStopped := func(r State) bool { return r.Replicas != nil && *r.Replicas == 0 }; rendered.FinalSnapshot == nil && isStopped(s) && isStopped(rendered) {
		rendered.FinalSnapshot = s.FinalSnapshot // no member has run since
	}
	s.Accepted, s.Replicas, s.TLS, s.Rotation = rendered.Accepted, rendered.Replicas, rendered.TLS, rendered.Rotation
	s.Restore, s.FinalSnapshot, s.HandBack = rendered.Restore, rendered.FinalSnapshot, rendered.HandBack
	s.Size, s.InitialClusterToken = cmp.Or(rendered.Size, s.Size), cmp.Or(rendered.InitialClusterToken, s.InitialClusterToken)
	s.Started = max(s.Started, rendered.Size) // it may have added members
	s.Rollout = nil                           // the update to newer defaults has ended
	s.PodSize = 0                             // its pod template does not depend on it

	return s
}

// parse reads JSON. Nil: there is none, or it cannot be read.
func parse[T any](text string) *T {
	parsed := new(T)
	if text == "" || json.Unmarshal([]byte(text), parsed) != nil {
		return nil
	}

	return parsed
}

// ParseTLSModes reads modes such as `client=provisioned,peer=plaintext`. What cannot be read is unknown.
func ParseTLSModes(text string) TLSModes {
	var modes TLSModes
	for _, part := range strings.Split(text, ",") {
		kind, value, _ := strings.Cut(part, "=")
		switch mode := TLSMode(value); mode {
		case ModePlaintext, ModeDisabled, ModeUserProvided, ModeManaged:
			switch kind {
			case "client":
				modes.Client = mode
			case "peer":
				modes.Peer = mode
			}
		}
	}
	if !modes.IsKnown() {
		return TLSModes{}
	}

	return modes
}
