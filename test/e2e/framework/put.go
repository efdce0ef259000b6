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

// putTimeout bounds a write with all its attempts. requestTimeout bounds each attempt.
const putTimeout = 30 * time.Second

// put writes the key. It retries while it is unknown whether etcd committed the write, for example during a leader
// election. The etcd client does not retry writes, because a retry may write twice. This is safe here because the value is
// the same.
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

// isRetryable returns true if the member is unreachable or has no leader. All other errors mean that etcd rejected the write.
func isRetryable(err error) bool {
	code := status.Code(err)

	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		code = known.Code()
	}

	return code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}
