// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// RunningModes are the modes of a running cluster: the recorded modes. If none are recorded, the Secrets that the live
// StatefulSet mounts determine the modes. clientCA and peerCA are the names of the mounted Secrets with the CAs. Empty: none
// is mounted. Without a StatefulSet the modes are unknown.
func RunningModes(etcdName string, recorded state.TLSModes, statefulSetExists bool, clientCA, peerCA string) state.TLSModes {
	if recorded.IsKnown() {
		return recorded
	}
	if !statefulSetExists {
		return state.TLSModes{}
	}
	names := ConfigNamesFor(etcdName)

	return state.TLSModes{Client: shownMode(clientCA, names.ClientCA), Peer: shownMode(peerCA, names.PeerCA)}
}

func shownMode(mounted, config string) state.TLSMode {
	switch {
	case mounted == "":
		return state.ModePlaintext
	case strings.HasPrefix(mounted, config+"-bundle-"):
		return state.ModeManaged
	default:
		return state.ModeUserProvided
	}
}

// Decide returns the TLS modes of a canonical Etcd, based on its spec and on the modes of the running cluster. pinnedPeerTLS
// is the peer TLS that the members must keep for now. Nil: the spec decides. The errors are final, and name the field and the
// remedy.
func Decide(etcd *druidv1alpha1.Etcd, running state.TLSModes, pinnedPeerTLS *bool) (state.TLSModes, field.ErrorList) {
	spec := field.NewPath("spec")
	clientPath, peerPath, backupPath := spec.Child("etcd", "clientUrlTls"), spec.Child("etcd", "peerUrlTls"), spec.Child("backup", "tls")
	client, peer, backup := etcd.Spec.Etcd.ClientUrlTLS != nil, etcd.Spec.Etcd.PeerUrlTLS != nil, etcd.Spec.Backup.TLS != nil

	input := modeInput{enableTLS: etcd.Spec.Etcd.EnableTLS, isNew: !running.IsKnown(), hasSecretRefs: client || peer || backup}
	var errs field.ErrorList
	decide := func(path *field.Path, referenced bool, running state.TLSMode, hint string) state.TLSMode {
		mode := input.modeFor(referenced, running)
		if mode == state.ModeUnknown {
			errs = append(errs, field.Required(path, "the cluster uses TLS with Secrets, and the spec does not name them any more: name them again, or set spec.etcd.enableTLS to true to issue certificates, or to false to disable TLS"+hint))
		}

		return mode
	}
	modes := state.TLSModes{Client: decide(clientPath, client, running.Client, "")}
	if isPeerTLSOff(etcd) && !peer && isPeerTLSOptional(running) {
		modes.Peer = state.ModePlaintext
	} else {
		modes.Peer = decide(peerPath, peer, running.Peer, "; members alone do without where the annotation "+druidv1alpha1.PeerTLSAnnotation+" is "+druidv1alpha1.PeerTLSOff)
	}
	if input.isNew && modes.Client == state.ModePlaintext && backup {
		errs = append(errs, field.Required(clientPath, backupPath.String()+" is set, and etcd and its sidecar must both serve with TLS, or neither: name Secrets here too, or set spec.etcd.enableTLS to true to have them issued"))
	}

	isPinned := pinnedPeerTLS != nil && hasCertificates(modes.Peer) != *pinnedPeerTLS
	if isPinned {
		modes.Peer = pinnedPeerMode(*pinnedPeerTLS, peer, running.Peer)
	}
	modes.PeerPinned = modes.Peer == state.ModeManaged && input.enableTLS == nil && (isPinned || running.PeerPinned)

	return modes, errs
}

// isPeerTLSOff is true if the annotation disables peer TLS. The field takes precedence over it.
func isPeerTLSOff(etcd *druidv1alpha1.Etcd) bool {
	return etcd.Annotations[druidv1alpha1.PeerTLSAnnotation] == druidv1alpha1.PeerTLSOff && etcd.Spec.Etcd.EnableTLS == nil
}

// isPeerTLSOptional is true if the members of a running cluster use TLS only because the spec named Secrets for it.
func isPeerTLSOptional(running state.TLSModes) bool {
	return running.Peer == state.ModeUserProvided || running.PeerPinned
}

// IsPeerChangePending is true if the spec changes the peer TLS, and pinnedPeerTLS prevents this change for now. A spec that
// Decide refuses changes nothing.
func IsPeerChangePending(etcd *druidv1alpha1.Etcd, running state.TLSModes, pinnedPeerTLS *bool) bool {
	modes, errs := Decide(etcd, running, nil)

	return pinnedPeerTLS != nil && len(errs) == 0 && hasCertificates(modes.Peer) != *pinnedPeerTLS
}

// pinnedPeerMode is the peer mode of members whose peer TLS is pinned. All members must share the certificates. Any shared
// certificates are sufficient.
func pinnedPeerMode(tls, referenced bool, running state.TLSMode) state.TLSMode {
	switch {
	case !tls && running == state.ModeDisabled:
		return state.ModeDisabled
	case !tls:
		return state.ModePlaintext
	case referenced && running != state.ModeManaged:
		return state.ModeUserProvided
	default:
		return state.ModeManaged
	}
}

// hasCertificates is true for modes with TLS.
func hasCertificates(m state.TLSMode) bool {
	return m == state.ModeUserProvided || m == state.ModeManaged
}

// modeInput is the input for the mode of each kind of connection.
type modeInput struct {
	enableTLS *bool
	isNew     bool
	// hasSecretRefs is true if the spec references Secrets for any kind of connection. The operator then does not manage
	// Secrets by default.
	hasSecretRefs bool
}

// modeFor returns the mode of a kind of connection. ModeUnknown: the spec is not sufficient.
func (in modeInput) modeFor(referenced bool, running state.TLSMode) state.TLSMode {
	switch {
	case in.enableTLS != nil && !*in.enableTLS:
		return state.ModeDisabled
	case referenced && in.enableTLS == nil && running == state.ModeDisabled:
		return state.ModeDisabled // enableTLS was pruned, not changed
	case referenced:
		return state.ModeUserProvided
	case in.enableTLS != nil:
		return state.ModeManaged
	case in.isNew && in.hasSecretRefs:
		return state.ModePlaintext
	case in.isNew:
		return state.ModeManaged
	case running == state.ModeUserProvided:
		return state.ModeUnknown
	default:
		return running
	}
}
