// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Input is what the objects of one Etcd depend on.
type Input struct {
	// Etcd is the Etcd in its canonical form. It is not changed.
	Etcd *druidv1alpha1.Etcd
	// Replicas is the number of pods that the plan asks for. It has no effect where somebody else runs the pods.
	Replicas int32
	// ClusterSize is the number of members that the plan lists in etcd's configuration. 0: none, while hibernated. It has
	// no effect where members are managed externally: then all addresses are listed.
	ClusterSize int32
	// Defaults come from the operator.
	Defaults state.Defaults
	// Store is the resolved store. Nil: there are no snapshots.
	Store *backupstore.Store
	// InitialClusterToken is the token that a running cluster was formed with. Empty: spec.etcd.initialClusterToken, else
	// derived from the UID of the Etcd.
	InitialClusterToken string
	// CADataKeys is the key of the CA bundle in each Secret, by name of the Secret, where the reference names none.
	// A Secret that is not in it: `ca.crt`.
	CADataKeys map[string]string
	// PodAnnotations are further annotations of the pod template, for example checksums of secrets. They win over those
	// of the spec. Nil: none.
	PodAnnotations map[string]string
}
