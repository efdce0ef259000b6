// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
)

// CAChange is a change to CAs or certificates that not all pods verify, in its current stage. The zero value is none.
type CAChange struct {
	// Bundles are the Secrets with combined CA bundles that the pods of the stage mount.
	Bundles []CABundle
	// Description describes the stage for messages. Empty: there is no change.
	Description string
	// IsPartial is true until the Secrets of the generation are rendered.
	IsPartial bool
}

// CABundle is a Secret with a combined CA bundle.
type CABundle struct {
	// Name is the name of the Secret, which depends on the content.
	Name string
	// PEM is the bundle.
	PEM []byte
	// ForClients is true if it verifies connections of clients. False: it verifies connections between members.
	ForClients bool
	// IsMounted is true if all members mount it, and get the new certificates next.
	IsMounted bool
}

// secretResync is when a Secret is read again that no Etcd references.
const secretResync = 10 * time.Second

// ResolveCAChange compares the Secrets of the generation with those that pods mount. If pods with both would reject each other, Etcd gets the Secrets
// of the current stage of a change.
func (t *Target) ResolveCAChange(o etcdcluster.Observation) error {
	t.CAChange = CAChange{}
	names, wanted := secrets.ConfigNamesFor(t.Etcd.Name), etcdcluster.TLSOf(t.Etcd)
	clients, peers := etcdcluster.ClientStage(t.Etcd, o, wanted), etcdcluster.PeerStage(t.Etcd, o, wanted)
	for _, stage := range []etcdcluster.CAStage{clients, peers} {
		if stage.Problem != "" && !helper.IsHibernated(t.Etcd) {
			return plan.Waiting(secretResync, "Waiting: %s", stage.Problem)
		}
	}
	var descriptions []string
	if tls := t.Etcd.Spec.Etcd.ClientUrlTLS; wanted.ClientCA != "" {
		descriptions = append(descriptions, t.applyStage(o, clients, tls, names.ClientCA, true))
	}
	if tls := t.Etcd.Spec.Etcd.PeerUrlTLS; wanted.PeerCA != "" {
		descriptions = append(descriptions, t.applyStage(o, peers, &tls.TLSConfig, names.PeerCA, false))
	}
	t.CAChange.Description = strings.Join(slices.DeleteFunc(descriptions, func(d string) bool { return d == "" }), "; ")

	return nil
}

// applyStage sets the Secrets of a stage in the TLS configuration of the target, and returns its description. Empty: there is no change.
func (t *Target) applyStage(o etcdcluster.Observation, stage etcdcluster.CAStage, tls *druidv1alpha1.TLSConfig, caName string, forClients bool) string {
	if kept := stage.Kept; kept != nil {
		tls.ServerTLSSecretRef = corev1.SecretReference{Name: cmp.Or(kept.Server, kept.Peer)}
		tls.ClientTLSSecretRef = corev1.SecretReference{Name: cmp.Or(kept.Client, tls.ClientTLSSecretRef.Name)}
	}
	combined := stage.KeptCA
	if stage.Trusted != nil {
		bundle := CABundle{PEM: etcdcluster.EncodeBundle(stage.Trusted), ForClients: forClients, IsMounted: stage.Kept == nil}
		bundle.Name = etcdcluster.CombinedCAName(caName, bundle.PEM)
		t.CAChange.Bundles = append(t.CAChange.Bundles, bundle)
		combined = bundle.Name
	}
	if combined != "" {
		tls.TLSCASecretRef = druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: combined}, DataKey: new(etcdcluster.BundleKey)}
	}
	t.CAChange.IsPartial = t.CAChange.IsPartial || !stage.IsLast()
	who := "peers"
	if forClients {
		who = "clients"
	}
	describe := func(number int, text string) string {
		return fmt.Sprintf("the CA for %s changes, stage %d of 3: %s", who, number, text)
	}
	switch {
	case stage.Kept != nil:
		return describe(1, "members start to trust the new CA in addition to the old one")
	case !stage.IsLast():
		return describe(2, "members get certificates of the new CA")
	case slices.ContainsFunc(o.MountedSecrets(), func(name string) bool { return etcdcluster.IsCombinedCA(name) && strings.HasPrefix(name, caName) }):
		return describe(3, "members trust only the new CA")
	default:
		return ""
	}
}
