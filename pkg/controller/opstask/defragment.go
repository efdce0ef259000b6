// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
)

const (
	// memberPeriod is the interval in which members that are not healthy yet are observed.
	memberPeriod = time.Second
	// memberTimeout is the longest time until all members are healthy after one was defragmented.
	memberTimeout = 2 * time.Minute
)

// defragment defragments the members one at a time. Each step waits until all members are healthy. A planned defragmentation skips members that gain
// little.
func (r *Reconciler) defragment(ctx context.Context, etcd *druidv1alpha1.Etcd, isPlanned bool) Outcome {
	var (
		outcome Outcome
		done    = map[uint64]bool{}
		since   = r.Clock.Now()
	)
	for {
		before := len(done)
		waitsFor, isDone, err := r.executeStep(ctx, etcd, &outcome, done, isPlanned)
		switch {
		case err != nil:
		case isDone:
			return outcome
		case len(done) > before:
			since = r.Clock.Now()
		case waitsFor != "" && r.Clock.Since(since) > memberTimeout:
			err = fmt.Errorf("waiting for %s took longer than %s", waitsFor, memberTimeout)
		case waitsFor != "":
			err = pause(ctx, memberPeriod)
		}
		if err != nil {
			outcome.Problem = &opstask.Problem{Code: druidv1alpha1.ErrorCodeDefragment, Message: err.Error()}

			return outcome
		}
	}
}

// executeStep executes the next step, or returns what it waits for, or that the defragmentation is complete. Its lock prevents
// that another controller replaces a member in the meantime.
func (r *Reconciler) executeStep(ctx context.Context, etcd *druidv1alpha1.Etcd, outcome *Outcome, done map[uint64]bool, isPlanned bool) (waitsFor string, isDone bool, err error) {
	if !r.Locks.TryLock(etcd.UID, ControllerName) {
		return "the replacement of a member to end", false, nil
	}
	defer r.Locks.Unlock(etcd.UID, 0)
	step := opstask.DefragmentationFor(etcd, r.Observer.Observe(ctx, etcd, observer.Request{QueryEtcd: true}), done, isPlanned)
	switch {
	case step.WaitsFor != "":
		return step.WaitsFor, false, nil
	case step.Member == nil:
		return "", true, nil
	case step.MoveTo != 0:
		return "", false, r.moveLeader(ctx, etcd, step)
	}
	defragmented, err := r.defragmentMember(ctx, etcd, *step.Member)
	if err != nil {
		return "", false, err
	}
	outcome.Members = append(outcome.Members, defragmented)
	done[step.Member.ID()] = true

	return "", false, nil
}

// pause waits for the duration, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.New("the task was ended, or took too long")
	}
}

// moveLeader transfers leadership to a defragmented member.
func (r *Reconciler) moveLeader(ctx context.Context, etcd *druidv1alpha1.Etcd, step opstask.Defragmentation) error {
	member, err := r.Observer.Member(ctx, etcd, *step.Member.Pod)
	if err != nil {
		return err
	}
	if err := member.MoveLeader(ctx, step.MoveTo); err != nil {
		return fmt.Errorf("transferring leadership from member %s: %w", step.Member.Name, err)
	}

	return nil
}

// defragmentMember defragments one member and measures the duration. The member does not respond during that time.
func (r *Reconciler) defragmentMember(ctx context.Context, etcd *druidv1alpha1.Etcd, obs etcdcluster.Member) (druidv1alpha1.DefragmentedMember, error) {
	result := druidv1alpha1.DefragmentedMember{Name: obs.Name, SizeBytesBefore: obs.Endpoint.DBSize}
	member, err := r.Observer.Member(ctx, etcd, *obs.Pod)
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, helper.DefragmentationTimeout(etcd))
	defer cancel()
	began := r.Clock.Now()
	if err := member.Defragment(ctx); err != nil {
		return result, fmt.Errorf("defragmenting member %s: %w", obs.Name, err)
	}
	result.Stall = metav1.Duration{Duration: r.Clock.Since(began).Round(time.Millisecond)}
	status, _, err := member.Status(ctx)
	if err != nil {
		return result, fmt.Errorf("reading the size of member %s: %w", obs.Name, err)
	}
	result.SizeBytesAfter = status.DBSize

	return result, nil
}

// describeMembers describes status.members in a sentence. A CustomResourceDefinition of etcd-druid prunes that field.
func describeMembers(members []druidv1alpha1.DefragmentedMember) string {
	texts := make([]string, 0, len(members))
	for _, member := range members {
		texts = append(texts, fmt.Sprintf("%s stalled for %s and shrank from %d to %d bytes", member.Name, member.Stall.Duration, member.SizeBytesBefore, member.SizeBytesAfter))
	}

	return "Defragmented: " + strings.Join(texts, "; ")
}
