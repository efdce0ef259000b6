// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// member is the Client of a real member.
type member struct {
	etcd        *clientv3.Client
	callTimeout time.Duration
	// http calls the endpoints that have no gRPC method, at the URL base.
	http *http.Client
	base string

	lock sync.Mutex
	// unbounded is the number of running calls that may take longer than callTimeout. They can outlive the connection in the Pool: a member
	// responds to no other call during a defragmentation, so that the observer disconnects it.
	unbounded int
	closed    bool
}

var _ Client = (*member)(nil)

// Status implements Client.
func (m *member) Status(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	status, alarms, err := m.EndpointStatus(ctx)
	if err != nil {
		return status, nil, err
	}
	if err := m.checkHealth(ctx, &status); err != nil {
		status.Error = err.Error()
	} else {
		status.Healthy = true
	}

	return status, alarms, nil
}

// EndpointStatus implements Client.
func (m *member) EndpointStatus(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	// Not clientv3's Status: it opens a connection for each call.
	response, err := etcdserverpb.NewMaintenanceClient(m.etcd.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return etcdcluster.EndpointStatus{}, nil, explain("status", err)
	}
	status := statusFor(response)

	return status, alarmsFor(status.Errors), nil
}

func statusFor(response *etcdserverpb.StatusResponse) etcdcluster.EndpointStatus {
	return etcdcluster.EndpointStatus{
		Reachable:        true,
		MemberID:         response.GetHeader().GetMemberId(),
		ClusterID:        response.GetHeader().GetClusterId(),
		LeaderID:         response.Leader,
		Learner:          response.IsLearner,
		DBSize:           response.DbSize,
		DBSizeInUse:      response.DbSizeInUse,
		DBSizeQuota:      response.DbSizeQuota,
		RaftTerm:         response.RaftTerm,
		RaftIndex:        response.RaftIndex,
		RaftAppliedIndex: response.RaftAppliedIndex,
		Revision:         response.GetHeader().GetRevision(),
		Version:          truncate(response.Version, maxVersionLength),
		Errors:           truncateAll(response.Errors, maxTextLength),
	}
}

// checkHealth completes a linearizable read, and sets QuorumRevision and ReadRefused. The error says why the member does not complete one.
func (m *member) checkHealth(ctx context.Context, status *etcdcluster.EndpointStatus) error {
	switch {
	case status.Learner:
		return errors.New("the member is a learner")
	case status.LeaderID == 0:
		return errors.New("the member has no leader")
	}
	header, err := m.Read(ctx)
	if err != nil {
		return err
	}
	status.ReadRefused = header == ResponseHeader{}
	status.QuorumRevision, err = m.revisionAfter(ctx, header)

	return err
}

// Read implements Client. It reads a key that no client writes.
func (m *member) Read(ctx context.Context) (ResponseHeader, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	response, err := m.etcd.Get(ctx, "health", clientv3.WithCountOnly())
	switch {
	case err == nil:
		header := response.Header

		return ResponseHeader{ClusterID: header.GetClusterId(), MemberID: header.GetMemberId(), RaftTerm: header.GetRaftTerm(), Revision: header.GetRevision()}, nil
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return ResponseHeader{}, nil
	default:
		return ResponseHeader{}, explain("linearizable read", err)
	}
}

// Revision implements Client.
func (m *member) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()

	return m.quorumRevision(ctx)
}

// quorumRevision returns the revision of a linearizable read.
func (m *member) quorumRevision(ctx context.Context) (int64, error) {
	header, err := m.Read(ctx)
	if err != nil {
		return 0, err
	}

	return m.revisionAfter(ctx, header)
}

// revisionAfter returns the revision of a completed read. If etcd refused the read, it returns that of the member.
func (m *member) revisionAfter(ctx context.Context, header ResponseHeader) (int64, error) {
	if header.Revision > 0 {
		return header.Revision, nil
	}
	// The member has applied all writes that were committed when the read started.
	response, err := etcdserverpb.NewMaintenanceClient(m.etcd.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return 0, explain("status", err)
	}

	return response.GetHeader().GetRevision(), nil
}

// IsAuthEnabled implements Client.
func (m *member) IsAuthEnabled(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	response, err := m.etcd.AuthStatus(ctx)
	switch {
	case err == nil:
		return response.Enabled, nil
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return true, nil // only the role root may request it then
	default:
		return false, explain("auth status", err)
	}
}

// ClusterVersion implements Client.
func (m *member) ClusterVersion(ctx context.Context) (string, error) {
	status, body, err := m.get(ctx, "version")
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		return "", fmt.Errorf("version: the member responds with HTTP status %d", status)
	}
	var versions version.Versions
	if err := json.Unmarshal(body, &versions); err != nil {
		return "", fmt.Errorf("version: the response is not JSON: %s", truncate(err.Error(), maxTextLength))
	}
	if versions.Cluster == "not_decided" {
		return "", nil
	}

	return truncate(versions.Cluster, maxVersionLength), nil
}

// Health implements Client.
func (m *member) Health(ctx context.Context) error {
	status, body, err := m.get(ctx, "health")
	if err != nil {
		return err
	}
	var reported struct{ Health, Reason string }
	if err := json.Unmarshal(body, &reported); err != nil {
		return fmt.Errorf("health: the member responds with HTTP status %d, and not with JSON: %s", status, truncate(err.Error(), maxTextLength))
	}
	if status != http.StatusOK || reported.Health != "true" {
		return fmt.Errorf("health: the member is not healthy: %s", truncate(cmp.Or(reported.Reason, "it states no reason"), maxTextLength))
	}

	return nil
}

// get sends a request to an HTTP endpoint, and returns the HTTP status and the body of the response.
func (m *member) get(ctx context.Context, endpoint string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base+"/"+endpoint, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	response, err := m.http.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w: %s", endpoint, ErrUnreachable, truncate(err.Error(), maxTextLength))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMessageSize))
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w: %s", endpoint, ErrUnreachable, truncate(err.Error(), maxTextLength))
	}

	return response.StatusCode, body, nil
}

// MemberList implements Client.
func (m *member) MemberList(ctx context.Context) ([]etcdcluster.ListedMember, error) {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	response, err := m.etcd.MemberList(ctx)
	if err != nil {
		return nil, explain("member list", err)
	}
	if count := len(response.Members); count > maxItems {
		return nil, fmt.Errorf("member list: the response names %d members, and at most %d are read", count, maxItems)
	}
	members := make([]etcdcluster.ListedMember, 0, len(response.Members))
	for _, listed := range response.Members {
		members = append(members, etcdcluster.ListedMember{
			ID: listed.ID, Name: truncate(listed.Name, maxTextLength), Learner: listed.IsLearner,
			PeerURLs: truncateAll(listed.PeerURLs, maxURLLength), ClientURLs: truncateAll(listed.ClientURLs, maxURLLength),
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

// RemoveMember implements Client.
func (m *member) RemoveMember(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	_, err := m.etcd.MemberRemove(ctx, id)
	switch {
	case err == nil, errors.Is(err, rpctypes.ErrMemberNotFound):
		return nil
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
		return fmt.Errorf("%w: %w", ErrQuorumUnsafe, explain("removing the member", err))
	default:
		return explain("removing the member", err)
	}
}

// HashKV implements Client.
func (m *member) HashKV(ctx context.Context, revision int64) (uint32, int64, error) {
	m.begin()
	defer m.end()
	response, err := etcdserverpb.NewMaintenanceClient(m.etcd.ActiveConnection()).HashKV(ctx, &etcdserverpb.HashKVRequest{Revision: revision})
	if err != nil {
		return 0, 0, explain("hash of the keys", err)
	}

	return response.Hash, response.CompactRevision, nil
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
	m.unbounded++
}

func (m *member) end() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.unbounded--
	if m.closed && m.unbounded == 0 {
		_ = m.etcd.Close() // the connection is not used again
	}
}

// close closes the connection. If unbounded calls are running, the last of them closes it.
func (m *member) close() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.closed = true
	if m.unbounded == 0 {
		_ = m.etcd.Close() // the connection is not used again
	}
}

// alarmPattern matches an error of a status that is an alarm: the text form of the alarm message. The text form omits fields that are zero. etcd
// raises the alarm CORRUPT with the member ID 0 if it does not know which member has the corrupt data.
var alarmPattern = regexp.MustCompile(`^(?:memberID:(\d+)\s+)?alarm:(\w+)\s*$`)

// alarmsFor returns the alarms in the errors of a status. The alarm API is not used, since each of its calls adds an entry to
// the raft log of every member.
func alarmsFor(statusErrors []string) []etcdcluster.Alarm {
	var alarms []etcdcluster.Alarm
	for _, text := range statusErrors {
		match := alarmPattern.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		id, err := strconv.ParseUint(cmp.Or(match[1], "0"), 10, 64)
		if err != nil {
			continue // too many digits for a member ID: not an alarm
		}
		alarms = append(alarms, etcdcluster.Alarm{MemberID: id, Type: etcdcluster.AlarmType(match[2])})
	}

	return alarms
}

// explain adds the name of the call, and ErrUnreachable if the member sent no response. A call on a connection that the Pool
// has closed ends with the code Canceled after clientv3's last retry.
func explain(call string, err error) error {
	code := status.Code(err)
	if code == codes.Unavailable && isHandshakeError(err) {
		return fmt.Errorf("%s: %w: %w: %w", call, ErrUnreachable, ErrHandshake, boundedError{err})
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		code == codes.DeadlineExceeded || code == codes.Canceled || code == codes.Unavailable && !isEtcdError(err) {
		return fmt.Errorf("%s: %w: %w", call, ErrUnreachable, boundedError{err})
	}

	return fmt.Errorf("%s: %w", call, boundedError{err})
}

// handshakeErrors are texts of errors with which one side rejects the TLS handshake of the other. With TLS 1.3, a server verifies the certificate of
// the client after its own handshake. grpc keeps only the text. It also has "authentication handshake failed" for a connection that breaks.
var handshakeErrors = []string{"authentication handshake failed: tls: ", "authentication handshake failed: x509: ", "remote error: tls: "}

func isHandshakeError(err error) bool {
	return slices.ContainsFunc(handshakeErrors, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// isEtcdError is true for errors that etcd itself sends with the code Unavailable, for example that it has no leader.
func isEtcdError(err error) bool {
	var etcdError rpctypes.EtcdError

	return errors.As(rpctypes.Error(err), &etcdError)
}
