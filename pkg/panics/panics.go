// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package panics keeps the process running if a goroutine panics while it handles a response of a member, of a sidecar or of a store. Controllers recover
// panics of their workers, but not those of other goroutines. A panic would end the process, and the next leader would receive the same response.
//
// What may not live here: what happens after such an error.
package panics

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var total = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "etcd_druid_recovered_panics_total",
	Help: "Panics of goroutines that handle responses of members, sidecars and stores. Each of them is a defect of the operator.",
})

func init() { metrics.Registry.MustRegister(total) }

// Err is the error of a call that has panicked. The log has the panic, which may contain data.
var Err = errors.New("the operator could not handle a response: its log has the cause")

// Recover sets err to Err if the function that defers it panics. It counts the panic, and writes it to the log of the context.
func Recover(ctx context.Context, err *error) {
	value := recover()
	if value == nil {
		return
	}
	total.Inc()
	logf.FromContext(ctx).Error(Err, "Recovered from a panic", "panic", value, "stack", string(debug.Stack()))
	*err = Err
}
