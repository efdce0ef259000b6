// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	standingBy = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "etcd_druid_standing_by",
		Help: "1 while this instance leaves the Etcds to the etcd-druid that gardenlet installs, 0 while it may act.",
	})
	handBackRefused = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "etcd_druid_give_back_refused",
		Help: "Number of Etcds that cannot be handed back to the etcd-druid of gardenlet, while the operator hands back a seed.",
	})
	realClock clock.Clock = clock.RealClock{}
)

func init() {
	metrics.Registry.MustRegister(standingBy, handBackRefused)
}

// Path is the URL path of ServeHTTP on the metrics server.
const Path = "/ownership"

// ServeHTTP responds whether this instance is standby, and with the reason.
func (g *Guard) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	if reason := g.StandbyReason(); reason != "" {
		_, _ = fmt.Fprintf(response, "standby: %s\n", reason)

		return
	}
	if g.isElected() {
		_, _ = fmt.Fprintln(response, "acting")

		return
	}
	_, _ = fmt.Fprintln(response, "waiting for the election")
}
