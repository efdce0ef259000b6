// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

const (
	// defaultMembersTimeout bounds the time that requests to all members take together.
	defaultMembersTimeout = 4 * time.Second
	// observationTimeout bounds the time that one observation takes. An API server under load may take a part of it.
	observationTimeout = time.Minute
	// mostRequests is how many members of one Etcd are asked at the same time.
	mostRequests = 8
)

// Observer reads clusters. It is safe for concurrent use, and one is shared by all controllers, since it remembers the key
// names of Secrets that have not changed.
type Observer struct {
	// Reader reads everything but the content of Secrets, and events. It may be a cache of objects with our labels.
	Reader client.Reader
	// APIReader reads from the API server: Secrets, events, and claims that Reader does not have.
	APIReader client.Reader
	// Gardener is true where the definitions of Clusters and BackupEntries are installed; else there are none.
	Gardener bool
	// Garden is true where the definition of Gardens is installed; else there are none.
	Garden bool
	// Unindexed is true if Reader has no BackupEntryIndex, as an API server. All BackupEntries are listed then.
	Unindexed bool
	// Etcd connects to members. Nil: members are never asked.
	Etcd etcdclient.Connector
	// MembersTimeout bounds the time that asking all members takes together. 0: 4s.
	MembersTimeout time.Duration
	// Sidecars connects to the sidecars beside members. Nil: sidecars are never asked.
	Sidecars sidecar.Connector
	// Clock tells for how long members have not found together. Nil: the real one.
	Clock clock.PassiveClock

	// DryRun sends dry runs that request larger volumes. Nil: the observer assumes that the API server accepts what the StorageClass allows.
	DryRun client.Writer

	rejected rejections
	once     sync.Once
	secrets  *lru.Cache
}

// Request says what to read beside what every Observation has.
type Request struct {
	// Secrets that pods need beside those that the spec names, such as the credentials of a store that was looked up.
	Secrets []helper.SecretUse
	// QueryEtcd asks the members themselves.
	QueryEtcd bool
	// QueryExisting asks, with QueryEtcd, at the client endpoints of the cluster that the Etcd joins too.
	QueryExisting bool
	// ClientTLS are the Secrets with which members are asked. Nil: those that each member mounts itself.
	ClientTLS *etcdcluster.ClientSecrets
	// Volumes reads the volumes, and the nodes to which they are bound, of members that do not serve.
	Volumes bool
	// StorageClasses reads whether volumes may grow that are smaller than the spec asks for.
	StorageClasses bool
	// Events reads the warnings of volume claims that are not bound.
	Events bool
	// RestoreVerification reads the Job that rehearses a restore.
	RestoreVerification bool
	// Tasks reads what EtcdOpsTasks do to the Etcd.
	Tasks bool
	// Gardener reads what Gardener says about the namespace, and the Secrets that are issued for the Etcd.
	Gardener bool
}

// Observe reads everything about a canonical Etcd once, within a minute. What cannot be read, or does not answer in time, is reported by the
// Observation itself. Where the spec is invalid it reads no Secret and dials no address that the spec names: then only what the pods run with
// counts.
func (o *Observer) Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request Request) etcdcluster.Observation {
	ctx, cancel := context.WithTimeout(ctx, observationTimeout)
	defer cancel()
	pass := &pass{
		Observer: o, etcd: etcd, clientTLS: request.ClientTLS, askExisting: request.QueryExisting, isInvalid: len(validation.ValidateEtcd(etcd)) > 0,
	}
	pass.readManagedResource(ctx)
	pass.readStatefulSet(ctx)
	pass.readInitialClusterToken(ctx)
	pass.readPods(ctx)
	pass.readClaims(ctx, request.Events)
	pass.readLeases(ctx)
	pass.readSecrets(ctx, pass.neededSecrets(request))
	if request.Gardener {
		pass.readIssued(ctx)
		pass.readGardener(ctx)
		pass.readLocalStore(ctx)
	}
	if request.QueryEtcd && o.Etcd != nil {
		pass.askEtcd(ctx)
	}
	if request.Volumes {
		pass.readVolumes(ctx)
	}
	if request.RestoreVerification {
		pass.readRehearsal(ctx)
	}
	if request.StorageClasses {
		pass.readStorageClasses(ctx)
	}
	if request.Tasks {
		pass.readTasks(ctx)
	}

	return pass.seen
}

// pass is one look at one Etcd.
type pass struct {
	*Observer

	etcd *druidv1alpha1.Etcd
	// clientTLS are the Secrets with which members are asked. Nil: their own.
	clientTLS *etcdcluster.ClientSecrets
	// askExisting asks the cluster that is joined too.
	askExisting bool
	// isInvalid is true where the spec is refused.
	isInvalid bool

	seen etcdcluster.Observation
}

// neededSecrets are those that the spec names and that the request adds. Nil where the spec is invalid.
func (p *pass) neededSecrets(request Request) []helper.SecretUse {
	if p.isInvalid {
		return nil
	}

	return append(helper.NeededSecrets(p.effective()), request.Secrets...)
}

// effective is the Etcd with TLS as its cluster keeps it: where TLS was switched off, and a definition that does not know
// spec.etcd.enableTLS has pruned the field since, no pod needs the Secrets that the spec still names.
func (p *pass) effective() *druidv1alpha1.Etcd {
	modes, errs := secrets.Decide(p.etcd, p.seen.State.TLS, peers.PinnedTLS(p.etcd, p.seen, p.now()))
	if len(errs) > 0 {
		return p.etcd
	}

	return secrets.Effective(p.etcd, modes, secrets.Names{})
}

func (o *Observer) now() time.Time {
	if o.Clock == nil {
		return time.Now()
	}

	return o.Clock.Now()
}

// failed records what could not be read.
func (p *pass) failed(section etcdcluster.Section, err error) {
	p.seen.Failures = append(p.seen.Failures, etcdcluster.ReadFailure{Section: section, Message: err.Error()})
}

func (p *pass) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: p.etcd.Namespace, Name: name}
}

func (p *pass) ours() []client.ListOption {
	return []client.ListOption{client.InNamespace(p.etcd.Namespace), client.MatchingLabels(helper.DefaultLabels(p.etcd))}
}
