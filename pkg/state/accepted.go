// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Accepted is a generation that may be rolled out, with everything that it is rendered with in addition to the spec. It is resolved once,
// when the generation is accepted. An operator of another version, with other images and defaults, renders the same and restarts no pod.
type Accepted struct {
	// Generation of the Etcd that was accepted.
	Generation int64 `json:"generation"`
	// Defaults of the operator that accepted it.
	Defaults Defaults `json:"defaults"`
	// CADataKeys are the keys of CA bundles that were found in Secrets whose reference names none, by the names of these Secrets. They include the
	// keys of Secrets that pods still mounted, and to which the spec had no reference any more.
	CADataKeys map[string]string `json:"caDataKeys,omitempty"`
	// Delayed is true if the generation was accepted with earlier defaults, because the limits of the rollout did not allow newer ones.
	Delayed bool `json:"delayed,omitempty"`
	// Spec is the spec of that generation in its current fields. The operator continues with it while a later generation is not rolled
	// out. Nil: the spec is larger than 96 KiB.
	Spec *druidv1alpha1.EtcdSpec `json:"spec,omitempty"`
	// EtcdVersion is the minor version of etcd that the generation requests, for example 3.5. State.EtcdVersion is the rendered one. Empty: the
	// cluster was adopted with images of the spec, and no member reported its version.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Certificates are the checksums of the certificates of the user that the pods mount. Nil: there are none, or one of them was missing.
	Certificates *Certificates `json:"certificates,omitempty"`
	// Completed is true when the operation with that generation has succeeded, although the status reports a later generation.
	Completed bool `json:"completed,omitempty"`
}

// AcceptedSpec returns the spec of the last accepted generation. Nil: none is recorded.
func (s State) AcceptedSpec() *druidv1alpha1.EtcdSpec {
	if s.Accepted == nil {
		return nil
	}

	return s.Accepted.Spec
}

// maxAcceptedBytes is the largest size of Accepted with a spec: the annotations of an object are limited to 256 KiB together.
const maxAcceptedBytes = 96 * 1024

// fitting returns Accepted without its spec if the record would be too large with it.
func (a *Accepted) fitting() *Accepted {
	if a == nil || a.Spec == nil {
		return a
	}
	if data, err := json.Marshal(a); err == nil && len(data) <= maxAcceptedBytes {
		return a
	}
	short := *a
	short.Spec = nil

	return &short
}

// Images are the images of one minor version of etcd, which are used where the Etcd names none. They are part of the pinned Defaults: names in JSON
// never change.
type Images struct {
	// EtcdWrapper is the image of the etcd container.
	EtcdWrapper string `json:"etcdWrapper"`
	// BackupRestore is the image of the sidecar.
	BackupRestore string `json:"backupRestore"`
	// Init is the image of the init container.
	Init string `json:"init"`
}

// Defaults are what changes a rendering and comes from the operator, not from the Etcd. The controller pins them, as
// JSON, when it accepts a generation, so that a new version of the operator renders what runs. Fields are only ever added,
// with a zero value that renders what was rendered before.
type Defaults struct {
	// ImageSets are the images by the minor version of etcd.
	ImageSets map[string]Images `json:"imageSets"`
	// IPFamilies are the IP families of pods in this cluster, the primary one first. Empty: IPv4.
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// NamespaceSelectors select the namespace of the operator, so that Gardener's network policies let it reach the
	// client Service. Empty, as outside of Gardener: the Service gets no annotation for it.
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`
	// NetworkPolicies name the other ends of the connections of etcd pods. Nil: there are no NetworkPolicies.
	NetworkPolicies *NetworkPolicies `json:"networkPolicies,omitempty"`
}

// ImagesOf returns the images of a minor version of etcd. Without such images, and for an empty version, it returns those of etcd 3.4.
func (d Defaults) ImagesOf(minor string) Images {
	images, has := d.ImageSets[minor]
	if !has {
		images = d.ImageSets[etcdversion.V34]
	}

	return images
}

// WithPodsOf returns the defaults with everything of earlier ones that changes pods. The rest, such as NetworkPolicies, restarts nothing.
func (d Defaults) WithPodsOf(earlier Defaults) Defaults {
	d.ImageSets, d.IPFamilies = earlier.ImageSets, earlier.IPFamilies

	return d
}

// NetworkPolicies are the peers of the NetworkPolicies of an Etcd.
type NetworkPolicies struct {
	// Operator are the pods of the operator when it accepted the generation. It renders those of its current configuration.
	Operator []networkingv1.NetworkPolicyPeer `json:"operator"`
	// Clients are the pods of applications. Nil: all pods in the namespace of the Etcd. An empty list: none.
	Clients []networkingv1.NetworkPolicyPeer `json:"clients"`
	// Monitoring are the pods that scrape metrics. Empty: none.
	Monitoring []networkingv1.NetworkPolicyPeer `json:"monitoring,omitempty"`
	// DNS are the DNS servers. Nil: port 53 of every address. An empty list: none.
	DNS []networkingv1.NetworkPolicyPeer `json:"dns"`
	// APIServer are the addresses of the API server. Nil: the ports 443 and 6443 of every address. An empty list: none.
	APIServer []networkingv1.NetworkPolicyPeer `json:"apiServer"`
	// Stores are the addresses of backup stores. Nil: every address and port. An empty list: none.
	Stores []networkingv1.NetworkPolicyPeer `json:"stores"`
}
