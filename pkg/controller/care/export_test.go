// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import "sigs.k8s.io/controller-runtime/pkg/client"

// RecordEvent records a watch event for an object of an Etcd.
func (r *Reconciler) RecordEvent(etcd client.ObjectKey) { r.baselines.recordEvent(etcd) }
