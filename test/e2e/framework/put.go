// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// putTimeout is how long a write may take with all its attempts, each of which has requestTimeout.
const putTimeout = 30 * time.Second

// put writes the key, and writes the same again as long as nobody knows whether it was written, as when the leader is elected in the
// middle of it. Clients of etcd leave that to those who know that it does no harm.
func put(ctx context.Context, client *clientv3.Client, key, value string) (*clientv3.PutResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()

	var failures error

	for {
		response, err := putOnce(ctx, client, key, value)
		if err == nil {
			return response, nil
		}

		failures = errors.Join(failures, err)
		if !isRetryable(err) {
			return nil, failures
		}

		select {
		case <-ctx.Done():
			return nil, failures
		case <-time.After(PollInterval):
		}
	}
}

func putOnce(ctx context.Context, client *clientv3.Client, key, value string) (*clientv3.PutResponse, error) {
	call, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	return client.Put(call, key, value)
}

// isRetryable is true for the errors of a member that has no leader, has lost it, or is out of reach. All others are refusals.
func isRetryable(err error) bool {
	code := status.Code(err)

	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		code = known.Code()
	}

	return code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}
