// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// RejectWrites implements Client. etcd applies the alarm CORRUPT as an entry of the raft log, and acknowledges no write after it. The read
// afterwards returns the revision of the last write.
//
// etcd 3.4 and 3.5 let the first alarm of a type replace what the alarms of the other type reject. A database that becomes full later must not
// end the rejection: etcd accepts deletions then. Therefore an alarm NOSPACE is raised before. It is not raised if an alarm CORRUPT exists,
// because it would replace that one. The alarm CORRUPT of the operator would not be the first of its type.
func (m *member) RejectWrites(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	if err := m.beginRejection(ctx); err != nil {
		return 0, explain("rejecting writes", err)
	}

	return m.quorumRevision(ctx)
}

func (m *member) beginRejection(ctx context.Context) error {
	raised, err := m.raisedAlarms(ctx)
	if err != nil {
		return err
	}
	alarms := etcdcluster.WriteRejections
	if len(raised.corrupt) > 0 || slices.Contains(raised.own, etcdcluster.WriteRejection) {
		alarms = []etcdcluster.Alarm{etcdcluster.WriteRejection}
	}
	if err := m.changeAlarms(ctx, etcdserverpb.AlarmRequest_ACTIVATE, alarms...); err != nil {
		return err
	}
	isRejected, err := m.rejectsAllWrites(ctx)
	if err == nil && !isRejected && len(raised.corrupt) > 0 { // an alarm NOSPACE has replaced it
		all := slices.Concat(raised.corrupt, []etcdcluster.Alarm{etcdcluster.WriteRejection})
		if err := m.raiseAgain(ctx, all, all); err != nil {
			return err
		}
		isRejected, err = m.rejectsAllWrites(ctx)
	}
	if err == nil && !isRejected {
		err = errors.New("etcd accepts writes although the alarm CORRUPT is raised")
	}

	return err
}

// noLease is the ID of a lease that does not exist: etcd grants none with ID 0.
const noLease = 0

// rejectsAllWrites is true if an alarm CORRUPT has its effect. It tries to revoke a lease that does not exist, which changes nothing.
func (m *member) rejectsAllWrites(ctx context.Context) (bool, error) {
	_, err := m.etcd.Revoke(ctx, noLease)
	switch {
	case errors.Is(err, rpctypes.ErrCorrupt):
		return true, nil
	case err == nil, errors.Is(err, rpctypes.ErrLeaseNotFound):
		return false, nil
	default:
		return false, err
	}
}

// AllowWrites implements Client. When etcd disarms the last alarm of a type, it no longer does what an alarm of the other type says, but still
// lists it. Therefore the alarms of members are disarmed and raised again.
func (m *member) AllowWrites(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	if err := m.endRejection(ctx); err != nil {
		return explain("allowing writes", err)
	}

	return nil
}

func (m *member) endRejection(ctx context.Context) error {
	raised, err := m.raisedAlarms(ctx)
	if err != nil || len(raised.own) == 0 {
		return err
	}
	if len(raised.corrupt) == 0 {
		// CORRUPT is the last one of WriteRejections. While it is raised, the alarm must have its effect.
		disarmed := slices.Clone(etcdcluster.WriteRejections)
		slices.Reverse(disarmed)
		if err := m.changeAlarms(ctx, etcdserverpb.AlarmRequest_DEACTIVATE, disarmed...); err != nil {
			return err
		}

		return m.raiseAgain(ctx, raised.full, raised.full)
	}
	// The alarm CORRUPT of the operator is disarmed last: while it is raised, the next attempt continues after an interruption. A rejection that
	// was interrupted itself may not have raised it. It has no effect here.
	if err := m.changeAlarms(ctx, etcdserverpb.AlarmRequest_ACTIVATE, etcdcluster.WriteRejection); err != nil {
		return err
	}
	if err := m.changeAlarms(ctx, etcdserverpb.AlarmRequest_DEACTIVATE, etcdcluster.WriteRejections[0]); err != nil {
		return err
	}
	isRejected, err := m.rejectsAllWrites(ctx)
	if err != nil {
		return err
	}
	if isRejected {
		return m.changeAlarms(ctx, etcdserverpb.AlarmRequest_DEACTIVATE, etcdcluster.WriteRejection)
	}

	return m.raiseAgain(ctx, append([]etcdcluster.Alarm{etcdcluster.WriteRejection}, raised.corrupt...), raised.corrupt)
}

// alarms are the alarms of a cluster.
type alarms struct {
	// own are those of WriteRejections that are raised.
	own []etcdcluster.Alarm
	// full and corrupt are the alarms NOSPACE and CORRUPT of members.
	full, corrupt []etcdcluster.Alarm
}

// raisedAlarms lists the alarms.
func (m *member) raisedAlarms(ctx context.Context) (alarms, error) {
	listed, err := m.alarm(ctx, etcdserverpb.AlarmRequest_GET, etcdcluster.Alarm{})
	if err != nil {
		return alarms{}, err
	}
	var raised alarms
	for _, alarm := range listed {
		switch {
		case slices.Contains(etcdcluster.WriteRejections, alarm):
			raised.own = append(raised.own, alarm)
		case alarm.Type == etcdcluster.AlarmNoSpace:
			raised.full = append(raised.full, alarm)
		case alarm.Type == etcdcluster.AlarmCorrupt:
			raised.corrupt = append(raised.corrupt, alarm)
		}
	}

	return raised, nil
}

const (
	// raiseTimeout limits the attempts to raise alarms again that were disarmed.
	raiseTimeout = 10 * time.Second
	// raisePause is the pause between two of these attempts.
	raisePause = 200 * time.Millisecond
)

// raiseAgain disarms all alarms of one type, and then raises those again that stay. These have their effect again. If an alarm cannot be
// disarmed, it raises all of them, so that the next attempt continues. The end of the context does not interrupt it. A member raises the alarm
// CORRUPT only when etcd checks its data again, if it does at all. A full database raises NOSPACE with the next write.
//
// Alarms are lost if the operator is killed between the calls. No alarm can mark this state, because none may be raised meanwhile. The effect
// of a type begins only with its first alarm. The effect would end again with the marker, the last alarm of the other type.
func (m *member) raiseAgain(ctx context.Context, disarmed, stay []etcdcluster.Alarm) error {
	ctx = context.WithoutCancel(ctx)
	disarmCtx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	disarmErr := m.changeAlarms(disarmCtx, etcdserverpb.AlarmRequest_DEACTIVATE, disarmed...)
	if disarmErr != nil {
		stay = disarmed
	}
	if err := m.raise(ctx, stay); err != nil {
		return errors.Join(disarmErr, fmt.Errorf("raising the alarms %v again, which were disarmed before: %w", stay, err))
	}

	return disarmErr
}

// raise raises alarms. It repeats that until it succeeds or raiseTimeout has passed.
func (m *member) raise(ctx context.Context, raised []etcdcluster.Alarm) error {
	ctx, cancel := context.WithTimeout(ctx, raiseTimeout)
	defer cancel()
	for {
		callCtx, cancelCall := context.WithTimeout(ctx, m.callTimeout)
		err := m.changeAlarms(callCtx, etcdserverpb.AlarmRequest_ACTIVATE, raised...)
		cancelCall()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(raisePause):
		}
	}
}

// changeAlarms raises or disarms alarms, one after the other.
func (m *member) changeAlarms(ctx context.Context, action etcdserverpb.AlarmRequest_AlarmAction, changed ...etcdcluster.Alarm) error {
	for _, alarm := range changed {
		if _, err := m.alarm(ctx, action, alarm); err != nil {
			return err
		}
	}

	return nil
}

// alarm raises, disarms or lists alarms. The zero alarm stands for all alarms in a list.
func (m *member) alarm(ctx context.Context, action etcdserverpb.AlarmRequest_AlarmAction, alarm etcdcluster.Alarm) ([]etcdcluster.Alarm, error) {
	response, err := etcdserverpb.NewMaintenanceClient(m.etcd.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: action, MemberID: alarm.MemberID, Alarm: etcdserverpb.AlarmType(etcdserverpb.AlarmType_value[string(alarm.Type)]),
	})
	if err != nil {
		return nil, err
	}
	var alarms []etcdcluster.Alarm
	for _, listed := range response.GetAlarms() {
		alarms = append(alarms, etcdcluster.Alarm{MemberID: listed.MemberID, Type: etcdcluster.AlarmType(listed.Alarm.String())})
	}

	return alarms, nil
}
