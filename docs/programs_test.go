// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("the Go programs in the pages", func() {
	It("compile, and are formatted", func(ctx SpecContext) {
		programs := 0

		for _, page := range pages() {
			for _, block := range blocks(page) {
				if block.language != "go" {
					continue
				}

				programs++

				file := filepath.Join(GinkgoT().TempDir(), "main.go")
				Expect(os.WriteFile(file, []byte(block.text), 0o600)).To(Succeed())

				vet := exec.CommandContext(ctx, "go", "vet", file) // #nosec G204 -- a file of this test
				vet.Dir = root
				output, err := vet.CombinedOutput()
				Expect(err).NotTo(HaveOccurred(), "%s, %s:\n%s", page, block.section, output)

				output, err = exec.CommandContext(ctx, "gofmt", "-d", file).CombinedOutput() // #nosec G204 -- a file of this test
				Expect(err).NotTo(HaveOccurred())
				Expect(string(output)).To(BeEmpty(), "%s, %s", page, block.section)
			}
		}

		Expect(programs).To(BeNumerically(">", 0))
	})
})
