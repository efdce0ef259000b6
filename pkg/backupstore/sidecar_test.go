// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// Compares names with the source code of etcd-backup-restore, in the version of the local seed.
var _ = Describe("The sidecar's own code", Ordered, func() {
	var module string

	BeforeAll(func() {
		seed := filepath.Join("..", "..", "hack", "seed", "modules", "backup-restore")
		for _, args := range [][]string{{"mod", "download", "github.com/gardener/etcd-backup-restore"}, {"list", "-m", "-f", "{{.Dir}}", "github.com/gardener/etcd-backup-restore"}} {
			command := exec.Command("go", args...)
			command.Dir = seed
			out, err := command.Output()
			Expect(err).NotTo(HaveOccurred())
			module = strings.TrimSpace(string(out))
		}
	})

	// literals are the strings in a file.
	literals := func(elements ...string) []string {
		GinkgoHelper()
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(append([]string{module}, elements...)...), nil, 0)
		Expect(err).NotTo(HaveOccurred())
		var found []string
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				Expect(err).NotTo(HaveOccurred())
				found = append(found, text)
			}

			return true
		})

		return found
	}

	DescribeTable("knows the provider, and each variable with its credentials on both sides",
		func(provider backupstore.Provider, file string) {
			Expect(literals("pkg", "types", "snapstore.go")).To(ContainElement(string(provider)))
			Expect(literals("pkg", "snapstore", "utils.go")).To(ContainElements("STORAGE_CONTAINER", "SOURCE_STORAGE_CONTAINER", "SOURCE_"))
			known := literals("pkg", "snapstore", file)
			store := backupstore.Store{Provider: provider, Container: "bucket", Prefix: "prefix", SecretName: "secret"}
			for _, side := range []backupstore.Side{backupstore.Primary, backupstore.Source} {
				variables := store.Environment(side)[1:]
				Expect(variables).NotTo(BeEmpty())
				for _, variable := range variables {
					Expect(known).To(ContainElement(strings.TrimPrefix(variable.Name, "SOURCE_")))
				}
			}
		},
		Entry("S3", backupstore.ProviderS3, "s3_snapstore.go"),
		Entry("ABS", backupstore.ProviderABS, "abs_snapstore.go"),
		Entry("GCS", backupstore.ProviderGCS, "gcs_snapstore.go"),
		Entry("Swift", backupstore.ProviderSwift, "swift_snapstore.go"),
		Entry("OSS", backupstore.ProviderOSS, "oss_snapstore.go"),
		Entry("OCS", backupstore.ProviderOCS, "ocs_s3_snapstore.go"),
		Entry("ECS", backupstore.ProviderECS, "ecs_s3_snapstore.go"),
	)

	It("knows the provider Local", func() {
		Expect(literals("pkg", "types", "snapstore.go")).To(ContainElement("Local"))
	})

	It("knows the flags of a store", func() {
		store := backupstore.Store{Provider: backupstore.ProviderS3, Container: "bucket", Prefix: "prefix"}
		known := literals("pkg", "types", "snapstore.go")
		for _, flag := range append(store.Flags(backupstore.Source), store.ContainerFlag(backupstore.Source)) {
			name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--source-"), "=")
			Expect(known).To(ContainElement(name))
		}
		Expect(known).To(ContainElement("source-"))
	})
})
