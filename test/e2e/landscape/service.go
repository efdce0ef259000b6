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

// retryThroughService is how long a write waits before it tries once more with another connection.
const retryThroughService = 200 * time.Millisecond

// TryWriteThroughService writes one key that does not count to whichever member the client Service leads to, as an
// application would, and tries again with new connections until the time is over: one of them may lead to a member that is
// just being restarted, and hang. It returns the last error.
func (l *Ledger) TryWriteThroughService(ctx context.Context, config *tls.Config, duration time.Duration) error {
	service := &corev1.Service{}
	if err := l.story.Client.Get(ctx, client.ObjectKey{Namespace: l.story.Namespace, Name: l.etcd.Name + "-client"}, service); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()

	attempts := int(duration / retryThroughService)
	results := make(chan error, attempts)

	for attempt := range attempts {
		go func() {
			select {
			case <-time.After(time.Duration(attempt) * retryThroughService):
				results <- l.writeOnce(ctx, service.Spec.ClusterIP, config)
			case <-ctx.Done():
				results <- ctx.Err()
			}
		}()
	}

	var errs []error

	for range attempts {
		err := <-results
		if err == nil {
			return nil
		}

		errs = append(errs, err)
	}

	return errors.Join(errs...)
}

func (l *Ledger) writeOnce(ctx context.Context, address string, config *tls.Config) error {
	connection := l.connectTo(ctx, address, config)
	defer connection.Close()

	_, err := connection.Put(ctx, "attempt", time.Now().String())

	return err
}
