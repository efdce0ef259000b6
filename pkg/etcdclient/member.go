// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// member is the Client of a real member.
type member struct {
	etcd        *clientv3.Client
	callTimeout time.Duration

	lock sync.Mutex
	// long is how many calls run that no timeout ends. They outlive the Pool's interest in the connection: a member that defragments
	// answers nobody meanwhile, so that whoever looks at it has it forgotten.
	long   int
	closed bool
}

var _ Client = (*member)(nil)

// Status implements Client.
func (m *member) Status(ctx context.Context) (etcdcluster.MemberAnswer, []etcdcluster.Alarm, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	// Not clientv3's Status: it opens a connection for each call.
	response, err := etcdserverpb.NewMaintenanceClient(m.etcd.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return etcdcluster.MemberAnswer{}, nil, explain("status", err)
	}
	answer := answerFor(response)
	if err := m.checkServes(ctx, answer); err != nil {
		answer.Error = err.Error()
	} else {
		answer.Serves = true
	}

	return answer, alarmsFor(answer.Errors), nil
}

func answerFor(response *etcdserverpb.StatusResponse) etcdcluster.MemberAnswer {
	return etcdcluster.MemberAnswer{
		Reachable:        true,
		MemberID:         response.GetHeader().GetMemberId(),
		ClusterID:        response.GetHeader().GetClusterId(),
		LeaderID:         response.Leader,
		Learner:          response.IsLearner,
		DBSize:           response.DbSize,
		DBSizeInUse:      response.DbSizeInUse,
		RaftTerm:         response.RaftTerm,
		RaftIndex:        response.RaftIndex,
		RaftAppliedIndex: response.RaftAppliedIndex,
		Revision:         response.GetHeader().GetRevision(),
		Version:          bounded(response.Version, longestVersion),
		Errors:           allBounded(response.Errors, longestText),
	}
}

// checkServes returns why the member does not answer linearizable reads; nil when it does.
func (m *member) checkServes(ctx context.Context, answer etcdcluster.MemberAnswer) error {
	switch {
	case answer.Learner:
		return errors.New("the member is a learner")
	case answer.LeaderID == 0:
		return errors.New("the member has no leader")
	}
	_, err := m.read(ctx)

	return err
}

// read does a linearizable read of a key that nobody writes, and returns the revision that it was answered at. 0 without an
// error: the member refuses for lack of permission, which is decided after the read.
func (m *member) read(ctx context.Context) (int64, error) {
	response, err := m.etcd.Get(ctx, "health", clientv3.WithCountOnly())
	switch {
	case err == nil:
		return response.Header.GetRevision(), nil
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return 0, nil
	default:
		return 0, explain("linearizable read", err)
	}
}

// Revision implements Client.
func (m *member) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	revision, err := m.read(ctx)
	if err != nil || revision > 0 {
		return revision, err
	}
	// The member has applied by now what the quorum had agreed on when it was asked.
	response, err := etcdserverpb.NewMaintenanceClient(m.etcd.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return 0, explain("status", err)
	}

	return response.GetHeader().GetRevision(), nil
}

// MemberList implements Client.
func (m *member) MemberList(ctx context.Context) ([]etcdcluster.ListedMember, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	response, err := m.etcd.MemberList(ctx)
	if err != nil {
		return nil, explain("member list", err)
	}
	if count := len(response.Members); count > mostItems {
		return nil, fmt.Errorf("member list: the response names %d members, and at most %d are read", count, mostItems)
	}
	members := make([]etcdcluster.ListedMember, 0, len(response.Members))
	for _, listed := range response.Members {
		members = append(members, etcdcluster.ListedMember{
			ID: listed.ID, Name: bounded(listed.Name, longestText), Learner: listed.IsLearner,
			PeerURLs: allBounded(listed.PeerURLs, longestURL), ClientURLs: allBounded(listed.ClientURLs, longestURL),
		})
	}

	return members, nil
}

// MoveLeader implements Client.
func (m *member) MoveLeader(ctx context.Context, to uint64) error {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	if _, err := m.etcd.MoveLeader(ctx, to); err != nil {
		return explain("moving the leader", err)
	}

	return nil
}

// Promote implements Client.
func (m *member) Promote(ctx context.Context, learner uint64) error {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	if _, err := m.etcd.MemberPromote(ctx, learner); err != nil {
		return explain("promoting the learner", err)
	}

	return nil
}

// UpdatePeerURLs implements Client.
func (m *member) UpdatePeerURLs(ctx context.Context, id uint64, urls []string) error {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	if _, err := m.etcd.MemberUpdate(ctx, id, urls); err != nil {
		return explain("updating peer URLs", err)
	}

	return nil
}

// Defragment implements Client.
func (m *member) Defragment(ctx context.Context) error {
	m.begin()
	defer m.end()
	if _, err := etcdserverpb.NewMaintenanceClient(m.etcd.ActiveConnection()).Defragment(ctx, &etcdserverpb.DefragmentRequest{}); err != nil {
		return explain("defragmenting", err)
	}

	return nil
}

func (m *member) begin() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.long++
}

func (m *member) end() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.long--
	if m.closed && m.long == 0 {
		_ = m.etcd.Close() // the connection is given up in any case
	}
}

// close closes the connection, or has the last of the long calls on it do so.
func (m *member) close() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.closed = true
	if m.long == 0 {
		_ = m.etcd.Close() // the connection is given up in any case
	}
}

// alarmPattern is how a member names an alarm among its errors: in the text form of the alarm's message.
var alarmPattern = regexp.MustCompile(`memberID:(\d+)\s+alarm:(\w+)`)

// alarmsFor finds the alarms among the errors of a member's status. Asking for alarms themselves would be an entry in the
// raft log of every member each time.
func alarmsFor(statusErrors []string) []etcdcluster.Alarm {
	var alarms []etcdcluster.Alarm
	for _, text := range statusErrors {
		match := alarmPattern.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		id, err := strconv.ParseUint(match[1], 10, 64)
		if err != nil {
			continue // more digits than an id has: not an alarm
		}
		alarms = append(alarms, etcdcluster.Alarm{MemberID: id, Type: etcdcluster.AlarmType(match[2])})
	}

	return alarms
}

// explain names the call, and puts ErrUnreachable into the chain where nobody answered.
func explain(call string, err error) error {
	code := status.Code(err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		code == codes.DeadlineExceeded || code == codes.Unavailable && !isAnswer(err) {
		return fmt.Errorf("%s: %w: %w", call, ErrUnreachable, boundedError{err})
	}

	return fmt.Errorf("%s: %w", call, boundedError{err})
}

// isAnswer is true for errors that etcd itself sends with the code Unavailable, e.g. that it has no leader.
func isAnswer(err error) bool {
	var etcdError rpctypes.EtcdError

	return errors.As(rpctypes.Error(err), &etcdError)
}
