// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

// TLSMode says how one kind of connection is secured.
type TLSMode string

const (
	// ModeUnknown is the mode of a cluster that does not exist yet.
	ModeUnknown TLSMode = ""
	// ModePlaintext is no TLS, because the spec never requested it.
	ModePlaintext TLSMode = "plaintext"
	// ModeDisabled is no TLS, because spec.etcd.enableTLS said so. It outlives the loss of that field.
	ModeDisabled TLSMode = "disabled"
	// ModeUserProvided is TLS with the Secrets that the spec names.
	ModeUserProvided TLSMode = "given"
	// ModeManaged is TLS with certificates that the operator issues.
	ModeManaged TLSMode = "provisioned"
)

// TLSModes are the modes of the kinds of connections of one cluster. The sidecar's server has no mode of its own: it uses what
// the spec names for it, else what etcd uses for its clients.
type TLSModes struct {
	// Client is the mode of connections of clients.
	Client TLSMode `json:"client"`
	// Peer is the mode of connections between members.
	Peer TLSMode `json:"peer"`
	// PeerPinned is true if Peer is ModeManaged only because the members had to keep peer TLS for a while. The annotation peer-tls=off then
	// still applies.
	PeerPinned bool `json:"peerPinned,omitempty"`
}

// IsKnown is false for a cluster that does not exist yet.
func (m TLSModes) IsKnown() bool { return m.Client != ModeUnknown && m.Peer != ModeUnknown }

// AnyManaged is true if the operator issues any certificate.
func (m TLSModes) AnyManaged() bool { return m.Client == ModeManaged || m.Peer == ModeManaged }

// String shows the modes, for example `client=provisioned,peer=plaintext`.
func (m TLSModes) String() string { return "client=" + string(m.Client) + ",peer=" + string(m.Peer) }

// Certificates are checksums of the certificates that the user provides. The pods read them when they start.
type Certificates struct {
	// First is the checksum at the time when it was first recorded. The pod template has no annotation for it, so that the first record restarts
	// no pods. Empty: pods had the annotation already.
	First string `json:"first,omitempty"`
	// Renewed is the checksum in the annotations of the pod template. Empty: the certificates are those of First.
	Renewed string `json:"renewed,omitempty"`
}
