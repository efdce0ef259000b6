// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
)

// The files testdata/<case>.json are what kubectl etcd status -o json printed of real clusters; docs/development/testing.md says
// how to record another.
var _ = Describe("The text of a status", func() {
	recorded, err := filepath.Glob("testdata/*.json")
	if err != nil || len(recorded) == 0 {
		panic("there are no recorded cases")
	}
	for _, path := range recorded {
		It("fits a terminal of 80 columns and reads as its golden file: "+strings.TrimSuffix(filepath.Base(path), ".json"), func() {
			content, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			status := report.Status{}
			decoder := json.NewDecoder(bytes.NewReader(content))
			decoder.DisallowUnknownFields()
			Expect(decoder.Decode(&status)).To(Succeed())

			text := &bytes.Buffer{}
			Expect(status.Text(text, false)).To(Succeed())
			for line := range strings.Lines(text.String()) {
				Expect(len([]rune(strings.TrimSuffix(line, "\n")))).To(BeNumerically("<=", 80), line)
			}
			Expect(strings.Count(text.String(), "\n")).To(BeNumerically("<=", 40), "it is one screen")
			expectGolden(strings.TrimSuffix(path, ".json")+".golden.txt", text.String())
		})
	}
})

func expectGolden(path, actual string) {
	GinkgoHelper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		Expect(os.WriteFile(path, []byte(actual), 0o600)).To(Succeed())
	}
	golden, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred(), "UPDATE_GOLDEN=1 writes it")
	Expect(actual).To(Equal(string(golden)))
}
