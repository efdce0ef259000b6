// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// handBackPeriod is the default time between two attempts.
const handBackPeriod = 10 * time.Second

// HandBack hands all Etcds back to the etcd-druid that gardenlet installs, and then starts that etcd-druid again. No other
// controller of this operator acts on Etcds meanwhile.
type HandBack struct {
	// Client reads from the API server.
	Client client.Client
	// Observer reads one Etcd. It must not depend on caches that are not started.
	Observer interface {
		Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
	}
	// Recorder writes events about Etcds.
	Recorder events.EventRecorder
	// Clock returns the time for the remaining validity of certificates.
	Clock clock.PassiveClock
	// Period is the time between two attempts. 0: 10s.
	Period time.Duration
}

// NeedLeaderElection is true: only the leader hands back.
func (g *HandBack) NeedLeaderElection() bool { return true }

// Start calls RunOnce periodically until the hand-back is complete, and then waits for the end of the context.
func (g *HandBack) Start(ctx context.Context) error {
	period := g.Period
	if period == 0 {
		period = handBackPeriod
	}
	for {
		done, err := g.RunOnce(ctx)
		if err != nil {
			logf.FromContext(ctx).Error(err, "Hand-back failed, retrying")
		}
		if done {
			<-ctx.Done()

			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(period):
		}
	}
}

// RunOnce tries to hand back every Etcd. After the last one it starts the etcd-druid again. It returns true if the hand-back
// is complete.
func (g *HandBack) RunOnce(ctx context.Context) (bool, error) {
	resource := &resourcesv1alpha1.ManagedResource{}
	if err := g.Client.Get(ctx, EtcdDruidKey, resource); err != nil {
		return false, fmt.Errorf("there is no etcd-druid to hand the seed back to: reading ManagedResource %s: %w", EtcdDruidKey, err)
	}
	etcds := &druidv1alpha1.EtcdList{}
	if err := g.Client.List(ctx, etcds); err != nil {
		return false, fmt.Errorf("listing Etcds: %w", err)
	}
	var refused []string
	for i := range etcds.Items {
		etcd := &etcds.Items[i]
		if err := g.handBack(ctx, etcd); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %s", client.ObjectKeyFromObject(etcd), err))
			g.Recorder.Eventf(etcd, nil, corev1.EventTypeWarning, "HandBackBlocked", "HandBack", "Not handed back to etcd-druid: %s", err)
		}
	}
	handBackRefused.Set(float64(len(refused)))
	if len(refused) > 0 {
		return false, fmt.Errorf("%d of %d Etcds cannot be handed back: %s", len(refused), len(etcds.Items), strings.Join(refused, "; "))
	}
	if resource.Annotations[resourcesv1alpha1.Ignore] == "true" {
		if err := switchOn(ctx, g.Client, resource); err != nil {
			return false, err
		}
	}
	logf.FromContext(ctx).Info("Handed the seed back to the etcd-druid of gardenlet", "etcds", len(etcds.Items))

	return true, nil
}

// handBack hands one Etcd back. It completes a hand-back that a crash interrupted: the ManagedResource records the generation
// at which it began.
func (g *HandBack) handBack(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := g.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		return client.IgnoreNotFound(err) // it is handed back already, or this operator never managed it
	}
	recorded, err := g.readRecord(ctx, etcd, mr)
	if err != nil {
		return err
	}
	canonical, errs := helper.Canonical(etcd)
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	o := g.Observer.Observe(ctx, canonical, observer.Request{})
	complete, err := SpecForEtcdDruid(etcd, o)
	if err != nil {
		return err
	}
	reconciled, begunAt := etcd, etcd.Generation
	if isSpecWritten(etcd, complete, recorded) {
		reconciled, begunAt = etcd.DeepCopy(), recorded.HandBack
		reconciled.Status.ObservedGeneration = &reconciled.Generation
	}
	if err := cmp.Or(CheckReconciled(reconciled, o), CheckValidity(canonical, o, g.Clock.Now())); err != nil {
		return err
	}
	// All checks precede the first write.
	if err := g.Client.Patch(ctx, complete.DeepCopy(), client.MergeFrom(etcd.DeepCopy()), client.DryRunAll); err != nil {
		return fmt.Errorf("its spec would be refused: %w", err)
	}
	if err := g.recordHandBack(ctx, mr, begunAt); err != nil {
		return err
	}
	if err := g.Client.Patch(ctx, complete, client.MergeFrom(etcd.DeepCopy())); err != nil {
		return fmt.Errorf("writing what it runs with into its spec: %w", err)
	}
	for _, prepare := range []func(context.Context, *druidv1alpha1.Etcd) error{g.removeConditions, g.releaseSecrets, g.ensureClaimTemplates} {
		if err := prepare(ctx, complete); err != nil {
			return err
		}
	}
	if err := managedresources.SetKeepObjects(ctx, g.Client, mr.Namespace, mr.Name, true); err != nil {
		return fmt.Errorf("keeping the objects of ManagedResource %s: %w", mr.Name, err)
	}
	if err := managedresources.DeleteForSeed(ctx, g.Client, mr.Namespace, mr.Name); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting ManagedResource %s: %w", mr.Name, err)
	}
	g.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, "HandedBack", "HandBack", "Handed back to etcd-druid; its pods are unchanged%s", expiryNote(canonical, o))

	return fmt.Errorf("waiting for ManagedResource %s to release its objects", mr.Name)
}

// readRecord returns the record of the ManagedResource. It returns an error while an earlier round has to complete: the objects are being
// released, or the StatefulSet is missing. Only the StatefulSet names the Secrets that the operator has issued.
func (g *HandBack) readRecord(ctx context.Context, etcd *druidv1alpha1.Etcd, mr *resourcesv1alpha1.ManagedResource) (state.State, error) {
	if mr.DeletionTimestamp != nil {
		return state.State{}, fmt.Errorf("waiting for ManagedResource %s to release its objects", mr.Name)
	}
	recorded, err := state.Decode(mr.Annotations)
	if err != nil {
		return recorded, fmt.Errorf("ManagedResource %s: %w", mr.Name, err)
	}
	if recorded.HandBack == 0 {
		return recorded, nil
	}

	return recorded, g.awaitStatefulSet(ctx, etcd)
}

// recordHandBack records the generation at which the hand-back of an Etcd began.
func (g *HandBack) recordHandBack(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, generation int64) error {
	recorded, err := state.Decode(mr.Annotations)
	if err != nil || recorded.HandBack == generation {
		return err
	}
	annotations, err := state.Update(mr.Annotations, func(s *state.State) { s.HandBack = generation })
	if err != nil {
		return err
	}
	before := mr.DeepCopy()
	mr.Annotations = annotations
	if err := g.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording the hand-back on ManagedResource %s: %w", mr.Name, err)
	}

	return nil
}

// isSpecWritten is true if the newest generation of an Etcd is the spec that an interrupted hand-back wrote. It follows the
// generation at which the hand-back began, and its spec is complete.
func isSpecWritten(etcd, complete *druidv1alpha1.Etcd, recorded state.State) bool {
	return recorded.HandBack != 0 && recorded.HandBack == etcd.Generation-1 &&
		equality.Semantic.DeepEqual(etcd.Spec, complete.Spec)
}

// expiryNote is a sentence for the end of a message with the time until which certificates must be replaced. Empty: none were
// issued.
func expiryNote(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) string {
	first := FirstToExpire(etcd, o)
	if first == nil {
		return ""
	}

	return fmt.Sprintf(". Its certificates are not renewed any more: replace them before %s, when %s of Secret %s expires",
		first.NotAfter.UTC().Format(time.RFC3339), first.Key, first.SecretName)
}

// etcdDruidConditions are the types of the conditions that etcd-druid updates.
var etcdDruidConditions = []druidv1alpha1.ConditionType{
	druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTypeAllMembersReady, druidv1alpha1.ConditionTypeAllMembersUpdated,
	druidv1alpha1.ConditionTypeBackupReady, druidv1alpha1.ConditionTypeDataVolumesReady, druidv1alpha1.ConditionTypeClusterIDMismatch,
	druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster, druidv1alpha1.ConditionTypeLastSnapshotCompactionSucceeded,
}

// removeConditions removes the conditions that only this operator writes. etcd-druid would keep them in the status, and never update them.
func (g *HandBack) removeConditions(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	before := etcd.DeepCopy()
	etcd.Status.Conditions = slices.DeleteFunc(etcd.Status.Conditions, func(condition druidv1alpha1.Condition) bool {
		return !slices.Contains(etcdDruidConditions, condition.Type)
	})
	if len(etcd.Status.Conditions) == len(before.Status.Conditions) {
		return nil
	}
	if err := g.Client.Status().Patch(ctx, etcd, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("removing the conditions that etcd-druid does not update: %w", err)
	}

	return nil
}

// releaseSecrets removes the issued Secrets of an Etcd from the control of the secrets manager. After another takeover it
// would delete them as unused, although the spec now references them.
func (g *HandBack) releaseSecrets(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	issued := &metav1.PartialObjectMetadataList{}
	issued.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := g.Client.List(ctx, issued, client.InNamespace(etcd.Namespace), client.MatchingLabels{
		secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager, secretsmanager.LabelKeyManagerIdentity: secrets.Identity(etcd.Name),
	}); err != nil {
		return fmt.Errorf("listing the Secrets that were issued: %w", err)
	}
	for i := range issued.Items {
		secret := &issued.Items[i]
		before := secret.DeepCopy()
		delete(secret.Labels, secretsmanager.LabelKeyManagerIdentity)
		if err := g.Client.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("releasing Secret %s: %w", secret.Name, err)
		}
	}

	return nil
}
