// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

func init() { deltaRetry = wait.Backoff{Steps: 5} } // the sidecars in tests need no time

// CreateInspectionJob calls createInspectionJob.
func (r *Reconciler) CreateInspectionJob(ctx context.Context, run *engine.Run, claim etcdcluster.Claim) error {
	return (&execution{Reconciler: r}).createInspectionJob(ctx, run, claim, "a restore is requested")
}

// KeepsComparisons returns whether the result of the first of so many comparisons is known after the last one.
func KeepsComparisons(objects int) bool {
	results, first := &comparisons{}, &metav1.PartialObjectMetadata{}
	for i := range objects {
		results.recordEqual(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(strconv.Itoa(i)), ResourceVersion: "1"}}, "checksum")
	}
	first.UID, first.ResourceVersion = "0", "1"
	return results.isEqual(first, "checksum")
}

// VersionOf is version.
var VersionOf = version

// EtcdChanged is etcdChanged.
var EtcdChanged = etcdChanged

// RestoreJobEnded is restoreJobEnded.
var RestoreJobEnded = restoreJobEnded

// HibernationEventType is hibernationEventType.
var HibernationEventType = hibernationEventType

// ChangeReclaimPolicy calls changeReclaimPolicy.
func (r *Reconciler) ChangeReclaimPolicy(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.Step) error {
	return r.changeReclaimPolicy(ctx, etcd, step, "a restore is requested")
}

// CheckLag calls checkLag.
func (r *Reconciler) CheckLag(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, step plan.PromoteMember) error {
	return r.checkLag(ctx, etcd, o, step)
}

// FingerprintOf is fingerprintOf.
var FingerprintOf = fingerprintOf

// NewIssuedClient returns the client of the secrets manager.
func NewIssuedClient(c client.Client) client.Client { return &issuedClient{Client: c} }

// SlotsOf is slotsOf.
var SlotsOf = slotsOf

// IsCreating exports isCreating.
func IsCreating(r *Reconciler, request reconcile.Request) bool {
	return r.isCreating(context.Background(), request)
}

// IsInvalidField is isInvalidField.
var IsInvalidField = isInvalidField
