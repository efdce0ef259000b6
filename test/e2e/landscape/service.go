// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attemptThroughService is how long one attempt may take that is repeated with another connection.
const attemptThroughService = 500 * time.Millisecond

// TryWriteThroughService writes one key that does not count to whichever member the client Service leads to, as an
// application would, and tries again with a new connection until the time is over. It returns the last error.
func (l *Ledger) TryWriteThroughService(ctx context.Context, config *tls.Config, duration time.Duration) error {
	service := &corev1.Service{}
	if err := l.story.Client.Get(ctx, client.ObjectKey{Namespace: l.story.Namespace, Name: l.etcd.Name + "-client"}, service); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()

	for {
		err := l.tryOnce(ctx, service.Spec.ClusterIP, config)
		if err == nil {
			return nil
		}

		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

func (l *Ledger) tryOnce(ctx context.Context, address string, config *tls.Config) error {
	connection := l.connectTo(ctx, address, config)
	defer connection.Close()

	call, cancel := context.WithTimeout(ctx, attemptThroughService)
	defer cancel()

	_, err := connection.Put(call, "attempt", time.Now().String())

	return err
}
