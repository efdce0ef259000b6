// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// recording contains the metrics of an operator and of its members during end-to-end tests. hack/pictures records it.
var recording = filepath.Join("..", "..", "hack", "pictures", "testdata", "metrics.txt.gz")

// unrecorded are the panels that show nothing in the recording, with the reason.
var unrecorded = map[string]string{
	"Databases that become full first (empty: none predicted)": "the operator predicts only after an hour",
	"Database full in": "the operator predicts only after an hour",
}

// pictured matches the variables of the picture of one Etcd.
var pictured = regexp.MustCompile(`variables: \{namespace: (\S+), etcd: (\S+)\}`)

var _ = Describe("The dashboards of a recorded seed", func() {
	It("show something in each panel", func(ctx SpecContext) {
		file, err := os.Open(recording)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(file.Close)

		compressed, err := gzip.NewReader(file)
		Expect(err).NotTo(HaveOccurred())

		content, err := io.ReadAll(compressed)
		Expect(err).NotTo(HaveOccurred())

		pictures, err := os.ReadFile(filepath.Join("..", "..", "hack", "pictures", "pictures.yaml"))
		Expect(err).NotTo(HaveOccurred())

		variables := pictured.FindSubmatch(pictures)
		Expect(variables).NotTo(BeNil())

		storage := promqltest.LoadedStorage(GinkgoTB(), string(content))
		engine := promqltest.NewTestEngine(GinkgoTB(), false, 0, promqltest.DefaultMaxSamplesPerQuery)

		for file, panels := range dashboardsOf(string(variables[1]), string(variables[2])) {
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
