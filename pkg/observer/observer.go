// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

const (
	// defaultMembersTimeout bounds the time that requests to all members take together.
	defaultMembersTimeout = 4 * time.Second
	// observationTimeout bounds the time that one observation takes. An API server under load may take a part of it.
	observationTimeout = time.Minute
	// maxRequests is the maximum number of concurrent requests to the members of one Etcd.
	maxRequests = 8
)

// Observer reads clusters. It is safe for concurrent use. All controllers share one, because it caches the key names of Secrets that have not
// changed.
type Observer struct {
	// Reader reads everything but the content of Secrets, and events. It may be a cache of objects with the operator's labels.
	Reader client.Reader
	// APIReader reads from the API server: Secrets, events, and claims that Reader does not have.
	APIReader client.Reader
	// Gardener is true if the CustomResourceDefinitions of Clusters and BackupEntries are installed. Else the observer reads none.
	Gardener bool
	// Garden is true if the CustomResourceDefinition of Gardens is installed. Else the observer reads none.
	Garden bool
	// Unindexed is true if Reader has no BackupEntryIndex, as an API server. All BackupEntries are listed then.
	Unindexed bool
	// Stores is true if Reader has StoreIndex, which Detect adds. Else the observer does not read who else uses a store.
	Stores bool
	// Copies is true if an operator executes EtcdCopyBackupsTasks. Else the observer reads none.
	Copies bool
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
	// Restrictions are the values that authors may select. The observer connects to no other endpoint, unless the last accepted generation names it.
	// Zero: it connects to all endpoints.
	Restrictions restrictions.Restrictions
	// Etcd connects to members. Nil: the observer never queries members.
	Etcd etcdclient.Connector
	// MembersTimeout bounds the time that requests to all members take together. 0: 4s.
	MembersTimeout time.Duration
	// Sidecars connects to the sidecars of members. Nil: the observer connects to none.
	Sidecars sidecar.Connector
	// Clock measures for how long members have not formed a cluster. Nil: the real one.
	Clock clock.PassiveClock

	// DryRun sends dry runs that request larger volumes, and that create pods. Nil: the observer assumes that the API server accepts what the
	// StorageClass allows, and each pod.
	DryRun client.Writer

	dryRuns dryRuns
	once    sync.Once
	secrets *lru.Cache
}

// Request lists what to read in addition to what every Observation has.
type Request struct {
	// Secrets that pods need in addition to those that the spec names, such as the credentials of a store that was looked up.
	Secrets []helper.SecretUse
	// QueryEtcd requests the endpoint status of the members.
	QueryEtcd bool
	// NeedsMembers requests the endpoint status of the members if it is true for an observation with the record and the StatefulSet. Nil: it is
	// false.
	NeedsMembers func(o etcdcluster.Observation) bool
	// NeedsAuth is the same for whether etcd authenticates its clients. It has no effect if the members are not queried.
	NeedsAuth func(o etcdcluster.Observation) bool
	// NeedsClusterVersion is the same for the cluster version of etcd.
	NeedsClusterVersion func(o etcdcluster.Observation) bool
	// QueryExisting requests, with QueryEtcd, the endpoint status also from the cluster that the Etcd joins.
	QueryExisting bool
	// ClientTLS are the Secrets with which the observer connects to members. Nil: those that each member mounts.
	ClientTLS *etcdcluster.ClientSecrets
	// Volumes reads the volumes of members that are not healthy, and the nodes to which they are bound. It also reads the volumes that the
	// operator retains.
	Volumes bool
	// StorageClasses reads whether volumes that are smaller than the spec requests can be expanded.
	StorageClasses bool
	// Events reads why pods are not created, and the warnings of volume claims that are not bound.
	Events bool
	// KnownClaims reads only the claims with the labels of the operator while the Etcd has neither a StatefulSet nor a recorded size. The claims
	// that an earlier Etcd of the same name has left matter only to a plan.
	KnownClaims bool
	// RestoreVerification reads the Job that verifies a restore, the Jobs that inspect the volumes of members, and the Job of a recovery.
	RestoreVerification bool
	// Tasks reads what EtcdOpsTasks do to the Etcd.
	Tasks bool
	// Admission tries whether the API server admits a pod of the latest template, if the pod of a healthy member is outdated.
	Admission bool
	// Gardener reads what Gardener says about the namespace, and the Secrets that are issued for the Etcd.
	Gardener bool
}

// Observe reads everything about a canonical Etcd once, within a minute. The Observation reports what could not be read, or did not respond
// in time. If the spec is invalid, Observe reads no Secret and connects to no address that the spec names. Then only the configuration of
// the pods counts. It connects to no such address either if the Restrictions do not allow one of them.
func (o *Observer) Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request Request) etcdcluster.Observation {
	ctx, cancel := context.WithTimeout(ctx, observationTimeout)
	defer cancel()
	reader := &reader{
		Observer: o, etcd: etcd, clientTLS: request.ClientTLS, queryExisting: request.QueryExisting, isInvalid: len(validation.ValidateEtcd(etcd)) > 0,
	}
	reader.readManagedResource(ctx)
	reader.isForbidden = len(o.Restrictions.ValidateEndpoints(etcd, reader.observation.State.AcceptedSpec())) > 0
	reader.readStatefulSet(ctx)
	reader.readInitialClusterToken(ctx)
	reader.readPods(ctx)
	reader.acceptReplaced()
	if request.Events {
		reader.readFailedCreate(ctx)
	}
	reader.readClaims(ctx, request)
	reader.readLeases(ctx)
	reader.readSecrets(ctx, reader.neededSecrets(request))
	if request.Gardener {
		reader.readIssued(ctx)
		reader.readGardener(ctx)
		reader.readStore(ctx)
	}
	needs := func(is func(etcdcluster.Observation) bool) bool { return is != nil && is(reader.observation) }
	if (request.QueryEtcd || reader.isAdopting() || needs(request.NeedsMembers)) && o.Etcd != nil {
		reader.queryEtcd(ctx)
	}
	if needs(request.NeedsAuth) {
		reader.readAuth(ctx)
	}
	if needs(request.NeedsClusterVersion) {
		reader.readClusterVersion(ctx)
	}
	reader.readAdoptedVersion()
	if request.Volumes {
		reader.readVolumes(ctx)
	}
	if request.RestoreVerification {
		reader.readRestoreVerification(ctx)
		reader.readInspections(ctx)
		reader.readRecovery(ctx)
	}
	if request.StorageClasses {
		reader.readStorageClasses(ctx)
	}
	if request.Tasks {
		reader.readTasks(ctx)
	}
	if request.Admission {
		reader.readAdmission(ctx)
	}

	return reader.observation
}

// reader reads one Etcd once.
type reader struct {
	*Observer

	etcd *druidv1alpha1.Etcd
	// clientTLS are the Secrets with which the reader connects to members. Nil: their own.
	clientTLS *etcdcluster.ClientSecrets
	// queryExisting queries the cluster that the Etcd joins too.
	queryExisting bool
	// isInvalid is true where the spec is refused.
	isInvalid bool
	// isForbidden is true if the spec names an endpoint that is neither allowed nor that of the last accepted generation.
	isForbidden bool
	// hasRecord is true if the ManagedResource has the record.
	hasRecord bool
	// results are the responses of the members. Nil: they were not queried.
	results []endpointResult

	// statefulSet and pods are the objects of which the observation has the facts. They belong to the cache. Do not change them.
	statefulSet *appsv1.StatefulSet
	pods        []corev1.Pod

	observation etcdcluster.Observation
}

// neededSecrets are those that the spec names and that the request adds. Nil where the spec is invalid.
func (r *reader) neededSecrets(request Request) []helper.SecretUse {
	if r.isInvalid {
		return nil
	}

	return append(helper.NeededSecrets(r.effective()), request.Secrets...)
}

// effective returns the Etcd with TLS as its cluster uses it. If TLS was switched off, no pod needs the Secrets that the spec still names. This
// includes the case that an older CustomResourceDefinition has pruned spec.etcd.enableTLS since. The Secrets of the rendered mode are read in any case,
// because the StatefulSet mounts them.
func (r *reader) effective() *druidv1alpha1.Etcd {
	modes, errs := secrets.Decide(r.etcd, r.observation.State.TLS, peers.PinnedTLS(r.etcd, r.observation, r.now()))
	if len(errs) > 0 {
		return r.etcd
	}

	return secrets.Effective(r.etcd, modes, secrets.Names{})
}

func (o *Observer) now() time.Time {
	if o.Clock == nil {
		return time.Now()
	}

	return o.Clock.Now()
}

// failed records what could not be read.
func (r *reader) failed(section etcdcluster.Section, err error) {
	r.observation.Failures = append(r.observation.Failures, etcdcluster.ReadFailure{Section: section, Message: err.Error()})
}

func (r *reader) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.etcd.Namespace, Name: name}
}

// shared returns the options of labelled without copies of the objects. They belong to the cache. Do not change them.
func (r *reader) shared() []client.ListOption {
	return append(r.labelled(), client.UnsafeDisableDeepCopy)
}

func (r *reader) labelled() []client.ListOption {
	return []client.ListOption{client.InNamespace(r.etcd.Namespace), client.MatchingLabels(helper.DefaultLabels(r.etcd))}
}
