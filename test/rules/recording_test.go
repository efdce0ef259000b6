// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// recording contains the metrics of an operator and of its members during end-to-end tests, in the notation of promtool.
var recording = filepath.Join("testdata", "metrics.txt.gz")

// The Etcd of the recording whose dashboard is evaluated.
const (
	recordedNamespace = "shoot--iot--dev"
	recordedEtcd      = "main"
)

// unrecorded are the panels that show nothing in the recording, with the reason.
var unrecorded = map[string]string{
	"Databases that become full first (empty: none predicted)": "the operator predicts only after an hour",
	"Database full in": "the operator predicts only after an hour",
}

var _ = Describe("The dashboards of a recorded seed", func() {
	It("show something in each panel", func(ctx SpecContext) {
		file, err := os.Open(recording)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(file.Close)

		compressed, err := gzip.NewReader(file)
		Expect(err).NotTo(HaveOccurred())

		content, err := io.ReadAll(compressed)
		Expect(err).NotTo(HaveOccurred())

		storage := promqltest.LoadedStorage(GinkgoTB(), string(content))
		engine := promqltest.NewTestEngine(GinkgoTB(), false, 0, promqltest.DefaultMaxSamplesPerQuery)

		for file, panels := range dashboardsOf(recordedNamespace, recordedEtcd) {
			for _, panel := range panels {
				shown := false

				for _, target := range panel.Targets {
					query, err := engine.NewRangeQuery(ctx, storage, nil, target.Expr, time.Unix(0, 0), time.UnixMilli(storage.Head().MaxTime()), time.Minute)
					Expect(err).NotTo(HaveOccurred(), target.Expr)

					matrix, err := query.Exec(ctx).Matrix()
					Expect(err).NotTo(HaveOccurred(), target.Expr)

					shown = shown || len(matrix) > 0
					query.Close()
				}

				Expect(shown).To(Equal(unrecorded[panel.Title] == ""), "%s: %s", file, panel.Title)
			}
		}
	})
})
