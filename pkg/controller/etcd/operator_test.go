// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var (
	scheme = app.NewScheme()
	// payloads are cached beyond the life of an operator: they depend on their content alone.
	payloads = lru.New(1000)
)

// operator is one process of the operator. Its caches end with it.
type operator struct {
	observer   *observer.Observer
	log        logr.Logger
	cluster    *kube.Cluster
	reconciler *etcd.Reconciler
	// due is the time of the next reconciliation. Zero: the next one follows a change.
	due time.Time
	// err is the error of the last reconciliation.
	err error
	// reconciliations counts the reconciliations.
	reconciliations int
	// events are the reasons and notes of all events.
	events []string
	// reconciling is locked during a reconciliation.
	reconciling sync.Mutex
	// recording is locked while an event is recorded: a call that fails early is concurrent with the reconciliation that started it.
	recording sync.Mutex
	// callEnded receives a value when a call for a snapshot has ended.
	callEnded chan struct{}
}

// maxReconciliations is the number of reconciliations after which run fails. The longest case takes a fifth of them.
const maxReconciliations = 3000

// startOperator starts the operator, which reconciles the Etcd at once. onWrite as in kube.Cluster.Client.
func startOperator(k *kube.Cluster, onWrite func(kube.Write)) *operator {
	client := k.Client(onWrite)
	o := &operator{cluster: k, due: k.Clock.Now(), callEnded: make(chan struct{}, 1)}
	watching := &observer.Observer{Reader: client, APIReader: client, Etcd: k.Connector(onWrite), Sidecars: k.Sidecars(onWrite), Clock: k.Clock, DryRun: client}
	o.observer = watching
	recorded := &recordedRenderings{}
	k.MayApply = recorded.isLatest
	o.reconciler = &etcd.Reconciler{
		Client:   writeguard.CountWrites(client),
		Reader:   client,
		Observer: afterReconciliation{Observer: watching, reconciling: &o.reconciling},
		Clock:    k.Clock,
		Recorder: o,
		Payloads: payloads,

		Renderings: recorded,

		Snapshots: calls.NewRunner[etcdcluster.SnapshotCall](), // run starts it, reconcileOnce does not
		Space:     calls.NewRunner[etcdcluster.SpaceCall](),
		Config: target.Config{EtcdHelper: target.EtcdHelper{Image: "registry.example.com/operator:v1"}, LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath}, Defaults: state.Defaults{
			ImageSets: map[string]state.Images{"3.4": imagesOf34, "3.5": {EtcdWrapper: "registry.example.com/etcd-wrapper:v0.7.0", BackupRestore: "registry.example.com/etcdbrctl:v2", Init: "registry.example.com/init:v1"}},
		}},
	}
	return o
}

// imagesOf34 are the images of etcd 3.4.
var imagesOf34 = state.Images{EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1"}

// recordedRenderings is the latest rendering in the memory of one process. The resource manager of the tests applies no other, like the
// embedded one.
type recordedRenderings struct {
	lock   sync.Mutex
	secret string
}

// Record implements etcd.Renderings.
func (r *recordedRenderings) Record(_ *druidv1alpha1.Etcd, secret string, data map[string][]byte) {
	r.lock.Lock()
	defer r.lock.Unlock()
	Expect(data).NotTo(BeEmpty())
	r.secret = secret
}

// Discard implements etcd.Renderings.
func (r *recordedRenderings) Discard(*druidv1alpha1.Etcd) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.secret = ""
}

func (r *recordedRenderings) isLatest(secret string) bool {
	r.lock.Lock()
	defer r.lock.Unlock()

	return r.secret == secret
}

// newCluster returns a cluster in which certificates age with its clock.
func newCluster() *kube.Cluster {
	k := kube.New(scheme)
	before := secretsutils.Clock
	secretsutils.Clock = k.Clock
	DeferCleanup(func() { secretsutils.Clock = before })
	return k
}

// reconciledCluster returns a cluster with a reconciled Etcd, in which certificates age with its clock.
func reconciledCluster(replicas int32, options ...func(*druidv1alpha1.Etcd)) *kube.Cluster {
	GinkgoHelper()
	k := newCluster()
	create(replicas, options...)(k)
	startOperator(k, nil).run()
	Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
	return k
}

// Eventf implements events.EventRecorder.
func (o *operator) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	o.recording.Lock()
	defer o.recording.Unlock()
	o.events = append(o.events, reason+": "+fmt.Sprintf(note, args...))
	if reason == "ReconcileLoop" {
		o.cluster.Violations = append(o.cluster.Violations, "the operator wrote or conflicted too often: "+fmt.Sprintf(note, args...))
	}
}

// reconcileOnce reconciles the Etcd as a worker of the queue does.
func (o *operator) reconcileOnce() {
	o.reconciliations++
	result, err := o.reconcile()
	o.due, o.err = time.Time{}, err
	switch {
	case err != nil:
		o.due = o.cluster.Clock.Now().Add(5 * time.Second)
	case result.RequeueAfter > 0:
		o.due = o.cluster.Clock.Now().Add(result.RequeueAfter)
	}
	if o.awaitCall() {
		o.due = o.cluster.Clock.Now()
	}
}

func (o *operator) reconcile() (reconcile.Result, error) {
	o.reconciling.Lock()
	defer o.reconciling.Unlock()
	return o.reconciler.Reconcile(logf.IntoContext(context.Background(), o.log), reconcile.Request{NamespacedName: o.cluster.Etcd})
}

// run advances the operator and the cluster until nothing changes any more.
func (o *operator) run() {
	defer o.startCalls()()
	for idle := 0; idle < 30; {
		if o.reconciliations > maxReconciliations {
			o.cluster.Violations = append(o.cluster.Violations, fmt.Sprintf("the operator still writes after %d reconciliations, the last one returned: %v", o.reconciliations, o.err))
			return
		}
		before := o.cluster.State()
		if isDue := !o.due.IsZero() && !o.due.After(o.cluster.Clock.Now()); isDue {
			o.reconcileOnce()
		}
		wrote := o.cluster.State() != before
		happened := o.cluster.Tick()
		switch now := o.cluster.Clock.Now(); {
		case happened:
			o.due, idle = now, 0
		case wrote:
			idle = 0
		case o.due.IsZero() || o.due.Sub(now) > time.Hour:
			return
		default:
			idle++
			if o.due.After(now) {
				o.cluster.Clock.SetTime(o.due)
			}
		}
	}
}

// recordedAs returns a value of the record of the operator as JSON; empty if the record does not have the key.
func recordedAs(mr *resourcesv1alpha1.ManagedResource, key string) string {
	record := map[string]json.RawMessage{}
	must(json.Unmarshal([]byte(mr.Annotations[druidv1alpha1.ManagedResourceAnnotationState]), &record))
	return string(record[key])
}
