// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"sync/atomic"
	"time"
)

// slowRequest is the duration from which on a request to a member is slow. A healthy member answers within milliseconds.
const slowRequest = time.Second

type slowKey struct{}

// WithSlowRecorder returns a context, and a function that says whether a request to a member took a second or longer in it.
func WithSlowRecorder(ctx context.Context) (context.Context, func() bool) {
	slow := &atomic.Bool{}

	return context.WithValue(ctx, slowKey{}, slow), slow.Load
}

// RecordRequest records how long a request to a member took.
func RecordRequest(ctx context.Context, took time.Duration) {
	if slow, is := ctx.Value(slowKey{}).(*atomic.Bool); is && took >= slowRequest {
		slow.Store(true)
	}
}
