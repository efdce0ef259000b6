// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// RecordEvent records a watch event for an object of an Etcd.
func (r *Reconciler) RecordEvent(etcd client.ObjectKey) { r.baselines.recordEvent(etcd) }

// EnqueueLater returns the handler that enqueues Etcds after a time.
func (r *Reconciler) EnqueueLater(requestsFor handler.MapFunc, after time.Duration) handler.EventHandler {
	return r.baselines.enqueueLater(requestsFor, after)
}
