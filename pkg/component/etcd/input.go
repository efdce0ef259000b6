// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Input is the input of ValuesFor.
type Input struct {
	// Etcd is the Etcd in its canonical form. It is not changed.
	Etcd *druidv1alpha1.Etcd
	// Replicas is the planned number of pods. It has no effect if the members are managed externally.
	Replicas int32
	// ClusterSize is the planned number of members in the etcd configuration. 0: none, while hibernated. It has no effect if
	// the members are managed externally: then all addresses are listed.
	ClusterSize int32
	// Remaining is the number of members that stay while the others are removed. 0: none is removed.
	Remaining int32
	// Existing is the cluster that the members join or have joined. Nil: there is none.
	Existing *druidv1alpha1.BootstrapWithExistingCluster
	// Withdrawn is the ordinal of the member without advertised URLs. Nil: there is none.
	Withdrawn *int32
	// ServiceMember is the ordinal of the only member that the client Service selects. Nil: it selects all.
	ServiceMember *int32
	// ExcludesPods is true if the operator may have excluded a pod from the client Service. Pods that are not excluded have the name of the Etcd as their label
	// app.kubernetes.io/name.
	ExcludesPods bool
	// PodSize is the number of members for which the pod template is rendered. 0: ClusterSize.
	PodSize int32
	// RecordsTemplate is true if the StatefulSet has an annotation with the checksum of the rendered pod template. A surge needs it, and the pod that
	// a surge has created.
	RecordsTemplate bool
	// Defaults are the defaults of the operator.
	Defaults state.Defaults
	// EtcdVersion is the minor version of etcd, which determines the images and the options of etcd. Empty: it is not known, and counts as 3.4.
	EtcdVersion string
	// Store is the resolved store. Nil: there are no snapshots.
	Store *backupstore.Store
	// InitialClusterToken is the token with which a running cluster was created. Empty: spec.etcd.initialClusterToken, or a
	// value derived from the UID of the Etcd.
	InitialClusterToken string
	// CADataKeys is the key of the CA bundle by name of the Secret, for references without a key. Secrets that are not in the
	// map: `ca.crt`.
	CADataKeys map[string]string
	// CertificatesChecksum is the checksum of the certificates of the user after a renewal in place. Empty: there was no renewal.
	CertificatesChecksum string
}
