// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Mode says how one kind of connection is secured.
type Mode string

const (
	// ModeUnknown is the mode of a cluster that does not exist yet.
	ModeUnknown Mode = ""
	// ModePlaintext is no TLS, because the spec never asked for any.
	ModePlaintext Mode = "plaintext"
	// ModeDisabled is no TLS, because spec.etcd.enableTLS said so. It outlives the loss of that field.
	ModeDisabled Mode = "disabled"
	// ModeGiven is TLS with the Secrets that the spec names.
	ModeGiven Mode = "given"
	// ModeProvisioned is TLS with certificates of ours.
	ModeProvisioned Mode = "provisioned"
)

// Modes are the modes of the kinds of connections of one cluster. The sidecar's server has no mode of its own: it uses what
// the spec names for it, else what etcd uses for its clients.
type Modes struct {
	// Client is the mode of connections of clients.
	Client Mode
	// Peer is the mode of connections between members.
	Peer Mode
}

// IsKnown is false for a cluster that does not exist yet.
func (m Modes) IsKnown() bool { return m.Client != ModeUnknown && m.Peer != ModeUnknown }

// Provisions is true when any certificate is ours.
func (m Modes) Provisions() bool { return m.Client == ModeProvisioned || m.Peer == ModeProvisioned }

// String is the form in which the ManagedResource remembers the modes, for example `client=provisioned,peer=plaintext`.
func (m Modes) String() string { return "client=" + string(m.Client) + ",peer=" + string(m.Peer) }

// ParseModes reads what String wrote. What cannot be read is unknown.
func ParseModes(text string) Modes {
	var modes Modes
	for _, part := range strings.Split(text, ",") {
		kind, value, _ := strings.Cut(part, "=")
		switch mode := Mode(value); mode {
		case ModePlaintext, ModeDisabled, ModeGiven, ModeProvisioned:
			switch kind {
			case "client":
				modes.Client = mode
			case "peer":
				modes.Peer = mode
			}
		}
	}
	if !modes.IsKnown() {
		return Modes{}
	}

	return modes
}

// RunningModes are the modes of a cluster that runs: as they are remembered, else as the live StatefulSet shows them by the
// Secrets that it mounts. remembered is the text of the annotation, empty where there is none. clientCA and peerCA are the
// names of the mounted Secrets with the CAs, empty where none is mounted. Without a StatefulSet the modes are unknown.
func RunningModes(etcdName, remembered string, statefulSetExists bool, clientCA, peerCA string) Modes {
	if modes := ParseModes(remembered); modes.IsKnown() {
		return modes
	}
	if !statefulSetExists {
		return Modes{}
	}
	names := ConfigNamesFor(etcdName)

	return Modes{Client: shownMode(clientCA, names.ClientCA), Peer: shownMode(peerCA, names.PeerCA)}
}

func shownMode(mounted, config string) Mode {
	switch {
	case mounted == "":
		return ModePlaintext
	case strings.HasPrefix(mounted, config+"-bundle-"):
		return ModeProvisioned
	default:
		return ModeGiven
	}
}

// Decide says how the connections of a canonical Etcd are to be secured, given how those of its cluster are secured now. boundPeers
// says whether members have to talk to each other with TLS or without it for the time being; nil: as the spec says. The errors are
// final, and name the field and the way out.
func Decide(etcd *druidv1alpha1.Etcd, running Modes, boundPeers *bool) (Modes, field.ErrorList) {
	spec := field.NewPath("spec")
	clientPath, peerPath, backupPath := spec.Child("etcd", "clientUrlTls"), spec.Child("etcd", "peerUrlTls"), spec.Child("backup", "tls")
	client, peer, backup := etcd.Spec.Etcd.ClientUrlTLS != nil, etcd.Spec.Etcd.PeerUrlTLS != nil, etcd.Spec.Backup.TLS != nil

	question := question{enableTLS: etcd.Spec.Etcd.EnableTLS, isNew: !running.IsKnown(), ownsPKI: client || peer || backup}
	var errs field.ErrorList
	decide := func(path *field.Path, referenced bool, running Mode, hint string) Mode {
		mode := question.modeFor(referenced, running)
		if mode == ModeUnknown {
			errs = append(errs, field.Required(path, "the cluster serves TLS with Secrets that it named, and names them no longer: name them again, or set spec.etcd.enableTLS to true to have certificates issued, or to false to serve plaintext"+hint))
		}

		return mode
	}
	modes := Modes{Client: decide(clientPath, client, running.Client, "")}
	isOff := etcd.Annotations[druidv1alpha1.PeerTLSAnnotation] == druidv1alpha1.PeerTLSOff
	if isOff && running.Peer == ModeGiven && !peer && question.enableTLS == nil { // the field says more than the annotation
		modes.Peer = ModePlaintext
	} else {
		modes.Peer = decide(peerPath, peer, running.Peer, "; members alone do without where the annotation "+druidv1alpha1.PeerTLSAnnotation+" is "+druidv1alpha1.PeerTLSOff)
	}
	if question.isNew && modes.Client == ModePlaintext && backup {
		errs = append(errs, field.Required(clientPath, backupPath.String()+" is set, and etcd and its sidecar must both serve with TLS, or neither: name Secrets here too, or set spec.etcd.enableTLS to true to have them issued"))
	}

	if boundPeers != nil && modes.Peer.hasCertificates() != *boundPeers {
		modes.Peer = boundMode(*boundPeers, peer, running.Peer)
	}

	return modes, errs
}

// IsPeerChangePending is true where the spec asks for TLS between members, or for none, and boundPeers keeps that from being rendered now.
// A spec that Decide refuses asks for nothing.
func IsPeerChangePending(etcd *druidv1alpha1.Etcd, running Modes, boundPeers *bool) bool {
	modes, errs := Decide(etcd, running, nil)

	return boundPeers != nil && len(errs) == 0 && modes.Peer.hasCertificates() != *boundPeers
}

// boundMode is how members are connected that have to do with TLS, or without, until they can be told otherwise. Of certificates
// any will do that all of them share.
func boundMode(tls, referenced bool, running Mode) Mode {
	switch {
	case !tls && running == ModeDisabled:
		return ModeDisabled
	case !tls:
		return ModePlaintext
	case referenced && running != ModeProvisioned:
		return ModeGiven
	default:
		return ModeProvisioned
	}
}

// hasCertificates is true for TLS.
func (m Mode) hasCertificates() bool { return m == ModeGiven || m == ModeProvisioned }

// question is what the mode of every kind of connection depends on.
type question struct {
	enableTLS *bool
	isNew     bool
	// ownsPKI is true when the spec names Secrets for any kind: then its author decides about all.
	ownsPKI bool
}

// modeFor returns ModeUnknown where the spec says too little.
func (q question) modeFor(referenced bool, running Mode) Mode {
	switch {
	case q.enableTLS != nil && !*q.enableTLS:
		return ModeDisabled
	case referenced && q.enableTLS == nil && running == ModeDisabled:
		return ModeDisabled // enableTLS was lost, not changed
	case referenced:
		return ModeGiven
	case q.enableTLS != nil:
		return ModeProvisioned
	case q.isNew && q.ownsPKI:
		return ModePlaintext
	case q.isNew:
		return ModeProvisioned
	case running == ModeGiven:
		return ModeUnknown
	default:
		return running
	}
}
